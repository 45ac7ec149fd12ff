"""Frames (lab 06 of diffsynth): who looks at whom, and how windows of a long clip are blended."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.attention import FreeNoiseTransformerBlock
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from infralens.examiner.compare.describe import kind
from infralens.show.pictures.answers import NotDrawnError, tensor
from infralens.show.pictures.look import FAINT, INK, LIBRARY, MINE, plain, sheet

FRAMES, HEIGHT, WIDTH = 3, 2, 2
KINDS = ("spatial", "temporal", "causal")
CLIP, LENGTH, STRIDE = 21, 8, 4  # the window that is added has one new frame
SCHEMES = {"flat": "o", "pyramid": "^"}
FEATURES = 2


def draw(mine: Any, seed: int) -> Figure:
    """The learner's masks and blends on those that are right. Nothing is drawn at random."""
    figure = sheet(9.6, 3.1, "Frames · who looks at whom, and windows of a long clip")
    for place, (name, right) in enumerate(zip(KINDS, masks(), strict=True)):
        answer = mine.attention_mask(name, FRAMES, HEIGHT, WIDTH, 1)
        axes = figure.add_axes((0.045 + 0.18 * place, 0.24, 0.16, 0.5))
        squares(axes, right, looks(answer, right.shape))
        axes.set_title(name, fontsize=9, color=INK, pad=4)
        axes.set_xlabel("is looked at", fontsize=8, color=INK)
        if place == 0:
            axes.set_ylabel("looks", fontsize=8, color=INK)
    axes = figure.add_axes((0.635, 0.19, 0.345, 0.68))
    hidden = torch.arange(float(CLIP))[None, :, None].expand(1, CLIP, FEATURES).contiguous()
    for scheme, marker in SCHEMES.items():
        axes.plot(library(hidden, scheme), color=LIBRARY, linewidth=6, alpha=0.3)
        answer = mine.blend_windows(first_of, hidden, LENGTH, STRIDE, scheme)
        values = tensor(answer, tuple(hidden.shape), f"blend_windows, {scheme}")[0, :, 0]
        axes.plot(values, marker, color=MINE, markersize=6, mfc="none", label=f"{scheme}, yours")
    axes.set_xticks(range(0, CLIP, STRIDE))
    plain(axes, "frame", "mean first frame of its windows")
    axes.plot([], [], color=LIBRARY, linewidth=6, label="diffusers")
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    note = "blue: may look · orange: yours says so"
    figure.text(0.045, 0.03, note, fontsize=8, color=INK)
    return figure


def masks() -> list[Tensor]:
    """What spatial, temporal and causal attention may look at, by what they are."""
    pixels = HEIGHT * WIDTH
    same, every = torch.eye(FRAMES), torch.ones(pixels, pixels)
    blocks = [
        torch.kron(same, every),
        torch.kron(torch.ones(FRAMES, FRAMES), torch.eye(pixels)),
        torch.kron(torch.ones(FRAMES, FRAMES).tril(), every),
    ]
    return [block.bool() for block in blocks]


def looks(answer: Any, shape: tuple[int, ...]) -> Tensor:
    """The learner's mask, once it is one."""
    if not isinstance(answer, Tensor) or answer.dtype != torch.bool:
        raise NotDrawnError(f"`attention_mask` gave {kind(answer)}; true and false are drawn.")
    return tensor(answer.byte(), shape, "attention_mask").bool()


def squares(axes: Axes, right: Tensor, yours: Tensor) -> None:
    """Large squares where a token may look, small ones where the learner's may."""
    n = len(right)
    for which, colour, side in ((right, LIBRARY, 0.94), (yours, MINE, 0.44)):
        for i, j in which.nonzero().tolist():
            left, top = j - side / 2, i - side / 2
            axes.fill(
                [left, left + side, left + side, left], [top, top, top + side, top + side], colour
            )
    axes.set_xlim(-0.6, n - 0.4)
    axes.set_ylim(n - 0.4, -0.6)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    for edge in axes.spines.values():
        edge.set_edgecolor(FAINT)


def first_of(x: Tensor) -> Tensor:
    """A layer that says of each frame of a window what the first of them holds."""
    return x[:, :1].expand_as(x).contiguous()


class _Difference(torch.nn.Module):
    """An attention after which the block has what `first_of` says."""

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        return first_of(x) - x


def library(hidden: Tensor, scheme: str) -> Tensor:
    """FreeNoise's block on the same clip, with that layer for its attention."""
    block = FreeNoiseTransformerBlock(FEATURES, 1, FEATURES, norm_elementwise_affine=False)
    block.attn2, block.norm1, block.attn1 = None, torch.nn.Identity(), _Difference()
    block.ff = _Zero()
    block.set_free_noise_properties(LENGTH, STRIDE, scheme)
    with torch.no_grad():
        blended: Tensor = block.eval()(hidden)
    return blended[0, :, 0]


class _Zero(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)
