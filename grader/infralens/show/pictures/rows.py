"""Conditioning flow (lab 05 of diffsynth): the rows of a batch, and a sweep of an image prompt."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.attention_processor import Attention, IPAdapterAttnProcessor2_0
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from infralens.show.pictures.answers import NotDrawnError, number, tensor
from infralens.show.pictures.look import INK, LIBRARY, MINE, SERIES, plain, sheet

PROMPTS, IMAGES = 2, 2
ENTRIES = ("states", "pooled", "time ids")
ROWS = ("−a", "−b", "+a", "+b")
RIGHT = tuple(
    place
    for half in ((0, 1), (2, 3))
    for prompt in range(PROMPTS)
    for place in [half[prompt]] * IMAGES
)
"""Of each row of the batch, which of ROWS it is."""

COLOURS = dict(zip(ROWS, SERIES, strict=False))
HEADS, SIZE, TOKENS = 2, 8, 12
SCALES = tuple(step / 4 for step in range(-4, 7))


def draw(mine: Any, seed: int) -> Figure:
    """Left the learner's rows beside those that belong there, right a sweep beside the library."""
    figure = sheet(9.6, 4.2, "Conditioning flow · rows of a batch, strength of an image prompt")
    left = figure.add_axes((0.05, 0.1, 0.36, 0.72))
    right = figure.add_axes((0.56, 0.14, 0.42, 0.73))
    batch(left, mine)
    sweep(right, mine, seed)
    return figure


def batch(axes: Axes, mine: Any) -> None:
    """A square for each row of each entry, by whose numbers stand in it."""
    marks = {"−": torch.tensor([[0.0], [1.0]]), "+": torch.tensor([[2.0], [3.0]])}
    shapes = {"states": (1, 1), "pooled": (1,), "time ids": (1,)}
    sides = {
        sign: {name: value.reshape(2, *shapes[name]) for name in ENTRIES}
        for sign, value in marks.items()
    }
    for sign, one in (("−", 0.0), ("+", 2.0)):
        sides[sign]["time ids"] = torch.full((1, 1), one)
    answer = mine.batch_conditions(sides["+"], sides["−"], IMAGES)
    if not isinstance(answer, dict) or set(answer) != set(ENTRIES):
        raise NotDrawnError("`batch_conditions` gave no dict with the names that it was given.")
    for column, name in enumerate(ENTRIES):
        found = tensor(answer[name], (len(RIGHT), *shapes[name]), f"batch_conditions, {name}")
        for where, (x, width) in {"right": (column, 0.3), "yours": (column + 0.34, 0.5)}.items():
            for row, right in enumerate(RIGHT):
                value = float(found[row].sum()) if where == "yours" else float(right)
                if where == "right" and name == "time ids":
                    value = 2.0 * (right // 2)
                whose = ROWS[int(value)] if value in range(4) else "?"
                label = whose[0] if name == "time ids" and value in (0.0, 2.0) else whose
                square(axes, (x, row), width, COLOURS.get(whose, INK), label)
        axes.text(column + 0.42, -0.75, name, ha="center", fontsize=9, color=INK)
        axes.text(column + 0.15, -0.2, "right", ha="center", fontsize=7, color=LIBRARY)
        axes.text(column + 0.59, -0.2, "yours", ha="center", fontsize=7, color=MINE)
    axes.set_xlim(-0.05, len(ENTRIES))
    axes.set_ylim(len(RIGHT), -1)
    axes.axis("off")


def square(axes: Axes, at: tuple[float, float], width: float, colour: str, label: str) -> None:
    """A box of one row with its letters."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(at, width, 0.86, facecolor=colour, edgecolor="none"))
    middle = (at[0] + width / 2, at[1] + 0.45)
    axes.text(*middle, label, ha="center", va="center", fontsize=8, color="#ffffff")


def sweep(axes: Axes, mine: Any, seed: int) -> None:
    """How far an image prompt moves what is gathered, over its scale."""
    given = torch.Generator().manual_seed(seed)
    width = HEADS * SIZE

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=given)

    names = ("to_q", "to_k", "to_v", "to_out.0", "to_k_ip.0", "to_v_ip.0")
    weights = {f"{name}.weight": drawn(width, width) / 3 for name in names}
    weights["to_out.0.bias"] = drawn(width)
    hidden, text, image = drawn(1, TOKENS, width), drawn(1, 7, width), drawn(1, 4, width)
    plain_text = library(hidden, text, image, weights, 0.0)
    yours, theirs = [], []
    for scale in SCALES:
        answer = mine.image_prompt_attention(hidden, text, [image], weights, HEADS, [scale])
        answer = tensor(answer, (1, TOKENS, width), "image_prompt_attention")
        yours.append(number((answer - plain_text.double()).norm(), "the distance"))
        theirs.append(float((library(hidden, text, image, weights, scale) - plain_text).norm()))
    axes.plot(SCALES, theirs, color=LIBRARY, linewidth=6, alpha=0.3, label="diffusers")
    axes.plot(SCALES, yours, "o", color=MINE, markersize=8, mfc="none", label="yours")
    plain(axes, "scale of the image prompt", "distance from the text alone")
    axes.legend(fontsize=8, frameon=False, loc="upper center")


def library(
    hidden: Tensor, text: Tensor, image: Tensor, weights: dict[str, Tensor], scale: float
) -> Tensor:
    """The same attention with diffusers' processor."""
    width = hidden.shape[-1]
    processor = IPAdapterAttnProcessor2_0(width, width, num_tokens=[4], scale=[scale])
    layer = Attention(
        query_dim=width,
        cross_attention_dim=width,
        heads=HEADS,
        dim_head=SIZE,
        processor=processor,
    )
    layer.load_state_dict(
        {f"processor.{n}" if "_ip." in n else n: value for n, value in weights.items()}
    )
    with torch.no_grad():
        result: Tensor = layer.eval()(hidden, (text, [image]))
    return result
