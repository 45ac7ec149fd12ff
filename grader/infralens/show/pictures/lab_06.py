"""Lab 06: the components that the learner loads, and what a run hands from one to the next."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

from infralens.examiner.candidate.proxies import given
from infralens.examiner.errors import LearnerError
from infralens.shapes import FOLDER
from infralens.shapes.drawing import PICTURE
from infralens.shapes.sampling import load_pipeline
from infralens.show.harmless import one_line
from infralens.show.pictures import beside_components
from infralens.show.pictures.answers import NotDrawnError, number, pixels
from infralens.show.pictures.look import FAINT, INK, LIBRARY, MINE, PAPER, picture, sheet, upright

BESIDE = Path(beside_components.__file__).read_text(encoding="utf-8")
PROMPT, NEGATIVE = "a large yellow star on navy background", "a small red circle"
STEPS, SCALE = 8, 4.0
SWAPPED = ("EulerAncestralDiscreteScheduler", "HeunDiscreteScheduler")
PIXELS = (1, PICTURE, PICTURE, 3)
MOST_SIZE, MOST_LETTERS = 8, 24

PLACES = {
    "tokenizer": (1.0, 20.0),
    "text_encoder": (24.0, 20.0),
    "unet": (50.0, 20.0),
    "generator": (1.0, 4.5),
    "scheduler": (50.0, 4.5),
    "vae": (81.5, 4.5),
}
"""Where a component stands: the lower left corner of its box, in a panel of 100 × 30."""

BOX = (15.5, 8.6)


@dataclass(frozen=True)
class Graph:
    """What a pipeline consists of, and what one run handed from part to part."""

    classes: dict[str, str]  # of a component; empty for one that was left out
    sizes: dict[str, int]
    calls: dict[str, int]
    handed: dict[tuple[str, str], tuple[int, ...]]
    images: dict[str, Tensor | None]  # by scheduler class, (3, H, W)


def draw(mine: Any, seed: int) -> Figure:
    """The learner's graph above that of StableDiffusionPipeline, with the pictures of both."""
    figure = sheet(9.6, 7.4, f'Lab 06 · the components, and what is handed on for "{PROMPT}"')
    right = library(seed)
    for graph, name, colour, bottom in (
        (yours(mine, seed, set(right.classes)), "yours", MINE, 0.49),
        (right, "diffusers", LIBRARY, 0.02),
    ):
        panel(figure, graph, right, colour, (0.035, bottom, 0.96, 0.44))
        upright(figure, 0.035, bottom + 0.24, name, colour)
    return figure


def panel(
    figure: Figure,
    graph: Graph,
    right: Graph,
    colour: str,
    box: tuple[float, float, float, float],
) -> None:
    """One graph in `box` (left, bottom, width, height; 0 to 1)."""
    left, bottom, width, height = box
    axes = figure.add_axes(box)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 30)
    axes.axis("off")
    boxes = {name: _box(axes, name, graph) for name in PLACES}
    for (origin, name), shape in graph.handed.items():
        _arrow(axes, boxes[origin], boxes[name], _told(shape), colour)
    for i, (kind, image) in enumerate(graph.images.items()):
        corner = left + width * (0.69 + 0.104 * i), bottom + height * 0.614
        place = figure.add_axes((*corner, width * 0.1, height * 0.283))
        if image is not None:
            picture(place, image, _short(kind))
        else:
            place.axis("off")
            words = f"{_short(kind)}:\nnot started"
            place.text(0.5, 0.5, words, fontsize=8, color=FAINT, ha="center")
    if graph.calls.get("vae"):
        axes.add_patch(_line((89.25, 13.5), (89.25, 18.0), colour))
    names = sorted(right.classes)
    out = [name for name in names if graph.classes.get(name) == ""]
    missing = [name for name in names if name not in graph.classes]
    said = [f"left out when it was saved: {', '.join(out)}"] * bool(out)
    said += [f"not in your index: {', '.join(missing)}"] * bool(missing)
    axes.text(1.0, 0.8, "      ".join(said), fontsize=8, color=FAINT)


def _box(axes: Axes, name: str, graph: Graph) -> FancyBboxPatch:
    """A component: its name, its class, its weights and how often it was called."""
    left, bottom = PLACES[name]
    there = name == "generator" or bool(graph.classes.get(name))
    box = FancyBboxPatch(
        (left, bottom),
        *BOX,
        boxstyle="round,pad=0.3",
        facecolor="#f2f2f2" if there else PAPER,
        edgecolor=INK if there else FAINT,
        linestyle="-" if there else "--",
        linewidth=0.9,
    )
    axes.add_patch(box)
    words = _words(name, graph) if there else ["not loaded"]
    middle = left + BOX[0] / 2
    axes.text(middle, bottom + 6.5, name, fontsize=10, weight="bold", color=INK, ha="center")
    axes.text(
        middle,
        bottom + 5.8,
        "\n".join(words),
        fontsize=8,
        color=INK,
        ha="center",
        va="top",
        parse_math=False,
        linespacing=1.35,
    )
    return box


def _words(name: str, graph: Graph) -> list[str]:
    if name == "generator":
        return ["torch.Generator", "the noise"]
    size, calls = graph.sizes.get(name, 0), graph.calls.get(name, 0)
    often = {0: "never called", 1: "called once"}.get(calls, f"called {calls} times")
    told = [f"{size:,} weights"] * (size > 0) + [often] * (name != "tokenizer")
    return [graph.classes[name], *(told or ["text to ids"])]


def _arrow(axes: Axes, start: FancyBboxPatch, end: FancyBboxPatch, words: str, colour: str) -> None:
    """An arrow from box to box with the shape of what is handed over; arrows back lie beside it."""
    (ax, ay), (bx, by) = ((b.get_x() + BOX[0] / 2, b.get_y() + BOX[1] / 2) for b in (start, end))
    upright_one, level = ax == bx, ay == by
    side = (1 if by > ay else -1) if upright_one else 0
    ax, bx = ax + 4.5 * side, bx + 4.5 * side
    axes.add_patch(_line((ax, ay), (bx, by), colour, start, end))
    axes.text(
        (ax + bx) / 2 + 0.7 * side,
        (ay + by) / 2 + 0.4 * level,
        words,
        fontsize=8,
        color=colour,
        ha=("center", "left", "right")[side],
        va="bottom" if level else "center",
        bbox={"facecolor": "none" if level or upright_one else PAPER, "edgecolor": "none"},
    )


def _line(
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    leaves: FancyBboxPatch | None = None,
    reaches: FancyBboxPatch | None = None,
) -> FancyArrowPatch:
    """An arrow from point to point, or from the edge of one box to that of the other."""
    return FancyArrowPatch(
        start,
        end,
        patchA=leaves,
        patchB=reaches,
        arrowstyle="-|>",
        mutation_scale=10,
        color=colour,
        linewidth=1.2,
    )


def _told(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _short(kind: str) -> str:
    return kind.removesuffix("Scheduler").removesuffix("Discrete").replace("Ancestral", " anc.")


def yours(mine: Any, seed: int, names: set[str]) -> Graph:
    """What the learner's functions read and load, and hand on in a run."""
    files = {p.relative_to(FOLDER).as_posix(): p for p in FOLDER.rglob("*") if p.is_file()}
    beside = given(mine, BESIDE)
    folder = beside.folder({name: path.read_bytes() for name, path in files.items()})
    index, parts = mine.read_index(folder), mine.load_components(folder, "float32", "cpu")
    if not isinstance(index, dict) or not isinstance(parts, dict):
        raise NotDrawnError("`read_index` and `load_components` give dicts; that is what is drawn.")
    known = {name: parts[name] for name in names if parts.get(name) is not None}
    told = {name: beside.described(part) for name, part in known.items()}

    def image(scheduler: Any) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        now = {**parts, "scheduler": scheduler}
        words = ([PROMPT], [NEGATIVE], STEPS, SCALE, generator, 1, PICTURE, PICTURE)
        return _image(pixels(mine.generate(now, *words), PIXELS, "generate"))

    beside.watch(parts)
    try:
        first = image(parts.get("scheduler"))
    finally:
        found = beside.seen()
    images: dict[str, Tensor | None] = {_class(told.get("scheduler")): first}
    for kind in SWAPPED:
        try:
            images[kind] = image(mine.swap_scheduler(parts, kind))
        except LearnerError as error:
            if not error.not_started:
                raise
            images[kind] = None
    listed = {name: _class(told.get(name)) for name in names if name in index}
    sizes = {
        name: int(number(each.get("size"), name))
        for name, each in told.items()
        if isinstance(each, dict)
    }
    return Graph(listed, sizes, *noted(found), images)


def _class(told: Any) -> str:
    """The name of a class as the candidate tells it; empty for none."""
    return one_line(str(told.get("class")), MOST_LETTERS) if isinstance(told, dict) else ""


def noted(told: Any) -> tuple[dict[str, int], dict[tuple[str, str], tuple[int, ...]]]:
    """Calls and arrows as the candidate tells them: only names that have a place are asked for."""
    calls, arrows = _part(told, "calls"), _part(told, "handed")
    handed = {}
    for origin, name in itertools.permutations(PLACES, 2):
        shape = arrows.get(f"{origin} {name}")
        if isinstance(shape, list) and len(shape) <= MOST_SIZE:
            handed[origin, name] = tuple(int(number(side, "a shape")) for side in shape)
    return {name: int(number(calls.get(name, 0), name)) for name in PLACES}, handed


def _part(told: Any, key: str) -> dict[str, Any]:
    part = told.get(key) if isinstance(told, dict) else None
    return part if isinstance(part, dict) else {}


def _image(array: Any) -> Tensor:
    return torch.from_numpy(array[0].copy()).permute(2, 0, 1) / 127.5 - 1


def library(seed: int) -> Graph:
    """The same of StableDiffusionPipeline."""
    pipe = load_pipeline(FOLDER)
    parts = dict(pipe.components)
    told = {name: beside_components.described(part) for name, part in parts.items() if part}

    def image() -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        words = {"negative_prompt": NEGATIVE, "num_inference_steps": STEPS, "guidance_scale": SCALE}
        array = pipe(PROMPT, generator=generator, output_type="np", **words).images
        return _image((array * 255).round().astype("uint8"))

    beside_components.watch(parts)
    try:
        first = image()
    finally:
        found = beside_components.seen()
    images: dict[str, Tensor | None] = {_class(told["scheduler"]): first}
    config = pipe.scheduler.config
    for kind in SWAPPED:
        pipe.scheduler = getattr(diffusers, kind).from_config(config)
        images[kind] = image()
    sizes = {name: each["size"] for name, each in told.items()}
    classes = {name: _class(told.get(name)) for name in parts}
    return Graph(classes, sizes, *noted(found), images)
