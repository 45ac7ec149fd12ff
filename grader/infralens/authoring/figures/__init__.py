"""The figures of the handbook and the lab pages, drawn by this code alone.

`python -m infralens.authoring.figures` draws them again, all or those named, into
exercises/handbook/figures/. Pages show them as `![what is seen](figures/NAME.png)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure

from infralens.authoring.figures import model, solutions
from infralens.authoring.figures.solved import shown
from infralens.labs import own_place
from infralens.shapes import FOLDER
from infralens.show.pictures import (
    frames,
    lab_05,
    lab_06,
    lab_07,
    lab_08,
    lab_09,
    latents,
    pieces,
    regions,
    residency,
    rows,
    trace,
)
from infralens.show.pictures.look import as_png

MOST_BYTES = 60_000


def folder() -> Path:
    """Where the figures lie."""
    return own_place().exercises / "handbook" / "figures"


FIGURES: dict[str, Callable[[], Figure]] = {
    "dissolving": solutions.dissolving,
    "schedules": solutions.schedules,
    "spacings": solutions.spacings,
    "karras": solutions.karras,
    "shift": solutions.shift,
    "guidance": solutions.guidance,
    "euler": solutions.euler,
    "mistakes": solutions.mistakes,
    "predictions": solutions.predictions,
    "expectations": solutions.expectations,
    "run": model.run,
    "few": model.few,
    "graph": model.graph,
    "embedding": model.embedding,
    "queue": model.queue,
    "releases": model.releases,
    "branches": model.branches,
    "passage": partial(shown, "lab-05", lab_05.draw),
    "components": partial(shown, "lab-06", lab_06.draw),
    "attention": partial(shown, "lab-07", lab_07.draw),
    "strengths": partial(shown, "lab-08", lab_08.draw),
    "steered": partial(shown, "lab-09", lab_09.draw),
    "seam": model.seam,
    "states": solutions.states,
    "tokens": solutions.tokens,
    "filled": solutions.filled,
    "latents": partial(shown, "diffsynth/lab-03", latents.draw),
    "rows": partial(shown, "diffsynth/lab-05", rows.draw),
    "looking": partial(shown, "diffsynth/lab-06", frames.draw),
    "pieces": partial(shown, "diffsynth/lab-07", pieces.draw),
    "residency": partial(shown, "diffsynth/lab-08", residency.draw),
    "regions": partial(shown, "diffsynth/lab-09", regions.draw),
    "timeline": partial(shown, "diffsynth/lab-10", trace.draw),
}
"""What is drawn, by the name of its file without `.png`."""

GRIDS = ("words", "unseen", "unguided", "negative", "control", "stripes")
"""Finished grids of the shipped model, as `python -m infralens.shapes` draws them."""


def drawn(name: str) -> bytes:
    """One figure as a PNG file, drawn again. ValueError where it is too large for a page."""
    if name in GRIDS:
        png = (FOLDER.parent / "grids" / f"{name}.png").read_bytes()
    else:
        with torch.no_grad():
            png = as_png(FIGURES[name]())
    if len(png) > MOST_BYTES:
        raise ValueError(f"{name}.png has {len(png):,} bytes; a page's figure has at most 60,000")
    return png
