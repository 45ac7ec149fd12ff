"""How every picture looks: its paper, its colours, its panels, its bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

PAPER, INK, FAINT = "#ffffff", "#1a1a1a", "#767676"
"""An opaque white sheet: it reads the same on a light page and on a dark one."""

MINE, LIBRARY = "#d55e00", "#0072b2"
"""Vermilion for the learner's, blue for the library's; both of Okabe and Ito."""

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
"""Colours that are told apart with every kind of colour vision (Okabe and Ito 2008)."""

NAMED = (PAPER, INK, *SERIES)
"""Colours that stay as they are however few a picture has."""

DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (1, 1)))
"""A line is told by its dashes too, so that a print in grey says the same."""

DOTS_PER_INCH = 100


def sheet(width: float, height: float, title: str) -> Figure:
    """An empty picture, so many inches large. No window and no global state: pyplot is not used."""
    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, facecolor=PAPER)
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, color=INK, fontsize=11, x=0.02, y=0.985, ha="left", va="top")
    return figure


def picture(axes: Axes, image: Tensor, title: str = "", colour: str = INK) -> None:
    """Show one image (3, H, W), −1 to 1, its pixels as squares; what lies beyond is cut off."""
    pixels = ((image.double().clamp(-1, 1) + 1) * 127.5).round().byte()
    axes.imshow(pixels.permute(1, 2, 0).numpy().astype(np.uint8), interpolation="nearest")
    bare(axes)
    if title:
        axes.set_title(title, fontsize=8, color=colour, pad=3)


def field(
    axes: Axes, values: Tensor, limit: float, title: str = "", colour: str = INK, lowest: float = 0
) -> None:
    """Show one map of numbers (H, W) by colours that are told apart with every colour vision.

    From −limit to limit: orange below zero, white at zero, violet above it. With `lowest` above
    −limit no sign is to be seen: from there to limit, dark blue to yellow.
    """
    signed = lowest <= -limit
    axes.imshow(
        values.double().numpy(),
        cmap="PuOr" if signed else "cividis",
        vmin=lowest,
        vmax=limit,
        interpolation="nearest",
    )
    bare(axes)
    if title:
        axes.set_title(title, fontsize=8, color=colour, pad=3)


def bare(axes: Axes) -> None:
    """No ticks, and a faint frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_edgecolor(FAINT)


def row(
    figure: Figure,
    images: Sequence[Tensor],
    titles: Sequence[str | tuple[str, str]],
    *,
    name: str,
    box: tuple[float, float, float, float],
    colour: str = INK,
) -> None:
    """A row of images from left to right in `box` (left, bottom, width, height; 0 to 1).

    The row's name stands upright at its left; a title may come with a colour.
    """
    left, bottom, width, height = box
    step = width / len(images)
    for i, (image, title) in enumerate(zip(images, titles, strict=True)):
        words, ink = (title, INK) if isinstance(title, str) else title
        picture(figure.add_axes((left + i * step, bottom, step * 0.94, height)), image, words, ink)
    upright(figure, left, bottom + height / 2, name, colour)


def upright(figure: Figure, left: float, middle: float, name: str, colour: str = INK) -> None:
    """A name that stands upright, left of what begins there."""
    text = figure.text(left - 0.012, middle, name, color=colour, fontsize=9, rotation=90)
    text.set_horizontalalignment("right")
    text.set_verticalalignment("center")


def plain(axes: Axes, x: str, y: str) -> None:
    """Axes with their two names, a light grid and nothing else."""
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(color="#d9d9d9", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def as_png(figure: Figure) -> bytes:
    """The picture as a PNG file, of few colours where that loses nothing that is seen."""
    from PIL import Image, ImageColor

    raw = io.BytesIO()
    figure.savefig(raw, format="png", facecolor=PAPER)
    raw.seek(0)
    named = [ImageColor.getrgb(colour) for colour in NAMED]
    with Image.open(raw) as image:
        whole = image.convert("RGB")
        found = whole.quantize(256 - len(named), dither=Image.Dither.NONE).getpalette() or []
        palette = Image.new("P", (1, 1))  # a name is small, and its colour would be lost
        palette.putpalette([*found, *(value for colour in named for value in colour)])
        few = whole.quantize(palette=palette, dither=Image.Dither.NONE)
        for i, colour in enumerate(named):  # the nearest is looked for in steps of four
            own = (np.asarray(whole) == colour).all(axis=2)
            few.paste(len(found) // 3 + i, mask=Image.fromarray(own))
        small = io.BytesIO()
        few.save(small, "PNG", optimize=True)
    return small.getvalue()
