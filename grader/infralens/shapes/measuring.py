"""The judge: reads colour, background, size and shape off a picture by geometry alone.

Nothing here is learned and nothing here took part in training. The background is the median of
the border, the foreground is what differs from it, its colour is the nearest one of the palette,
its size follows from its area, and its shape is the one whose rendered template covers it best.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infralens.shapes.drawing import (
    BACKGROUNDS,
    COLOURS,
    PICTURE,
    SHAPES,
    SIZES,
    STRIPE,
    Combination,
    Drawing,
    coverage,
    paint,
)

Array = NDArray[np.float32]

LEAST_AREA = 12.0
"""Foreground below this many pixels is read as an empty picture."""

LEAST_CONTRAST = 30.0
"""Foreground closer to the background than this (RGB distance) is read as an empty picture."""

LEAST_FIT = 0.7
"""Templates that overlap less than this are not accepted: the shape is read as "none"."""

LARGEST = 1.15 * SIZES["large"][1]
"""Radius in pixels above which nothing is a shape."""

LIGHT_PERCENTILE = 90
"""Of a fill's pixels by brightness: the one that stands for its light rows."""

STRIPES_FROM = 0.21
"""Swing of the rows' brightness (see `stripes`) from which a fill counts as striped.

Of the 384 combinations an even drawing has at most 0.17 and a striped one at least 0.25: halfway.
(Not so blue on navy: its dark rows have the background's colour.)
"""

NONE = "none"


@dataclass(frozen=True)
class Reading:
    """What the judge sees; `fit` is the overlap with the best template, `radius` in pixels."""

    size: str
    colour: str
    shape: str
    background: str
    radius: float
    fit: float


@dataclass(frozen=True)
class Marks:
    """Which words of a caption a picture got right."""

    colour: bool
    background: bool
    size: bool
    shape: bool

    @property
    def all(self) -> bool:
        return self.colour and self.background and self.size and self.shape


@dataclass(frozen=True)
class _Template:
    """Area of a shape of radius 1 and where its centre of mass lies from its centre."""

    area: float
    dx: float
    dy: float


def read(picture: ArrayLike) -> Reading:
    """Read one picture, (32, 32, 3) with values 0 to 255."""
    pixels = np.asarray(picture, dtype=np.float32)
    ground = _border_colour(pixels)
    background = _nearest(ground, BACKGROUNDS)
    alpha, colour = _foreground(pixels, ground)
    area = float(alpha.sum())
    if area < LEAST_AREA or colour is None:
        return Reading(NONE, NONE, NONE, background, 0.0, 0.0)
    shape, radius, fit = _best_template(alpha, area)
    border = (SIZES["small"][1] + SIZES["large"][0]) / 2
    size = "small" if radius < border else "large"
    name = _nearest(colour, COLOURS)
    return Reading(size, name, shape if fit >= LEAST_FIT else NONE, background, radius, fit)


def mark(picture: ArrayLike, wanted: Combination) -> Marks:
    """Compare a picture, (32, 32, 3), with what its caption asked for."""
    seen = read(picture)
    return Marks(
        colour=seen.colour == wanted.colour,
        background=seen.background == wanted.background,
        size=seen.size == wanted.size,
        shape=seen.shape == wanted.shape,
    )


def foreground(picture: ArrayLike) -> Array:
    """How much of each pixel differs from the background: (32, 32), 0 to 1."""
    pixels = np.asarray(picture, dtype=np.float32)
    return _foreground(pixels, _border_colour(pixels))[0]


def overlap(picture: ArrayLike, mask: ArrayLike) -> float:
    """Intersection over union of a picture's foreground with a (32, 32) mask, both cut at 0.5."""
    seen = foreground(picture) > 0.5
    wanted = np.asarray(mask) > 0.5
    union = np.logical_or(seen, wanted).sum()
    return float(np.logical_and(seen, wanted).sum() / union) if union else 0.0


def stripes(picture: ArrayLike) -> float:
    """Swing of the shape's brightness from row to row at the stripes' period, 0 to about 1.

    The rows' mean brightness, as a share of the fill's own (a green is dimmer than a yellow), is
    compared with a wave of the stripes' period; an even fill gives nearly 0, a fill whose dark rows
    are a third as bright about 0.4.
    """
    pixels = np.asarray(picture, dtype=np.float32)
    ground = _border_colour(pixels)
    inside = _inside(pixels, ground)
    rows = np.flatnonzero(inside.sum(axis=1) >= 2)
    if len(rows) < 4 * STRIPE:
        return 0.0
    brightness = pixels.max(axis=2)
    # A row without foreground between two rows with it is a stripe as dark as the background.
    profile = np.array(
        [
            brightness[r][inside[r]].mean() if inside[r].sum() >= 2 else ground.max()
            for r in range(rows[0], rows[-1] + 1)
        ]
    )
    profile = (profile - profile.mean()) / np.percentile(brightness[inside], LIGHT_PERCENTILE)
    wave = np.exp(2j * np.pi * np.arange(len(profile)) / (2 * STRIPE))
    return float(2.0 * abs((profile * wave).mean()))


def shape_in_stripes(picture: ArrayLike) -> str:
    """The shape of a striped fill: the one whose striped drawing leaves the same pixels free.

    Some dark rows are hard to tell from the background, so plain templates do not fit; drawings in
    the picture's own colours have the same gaps.
    """
    pixels = np.asarray(picture, dtype=np.float32)
    ground = _border_colour(pixels)
    seen = _inside(pixels, ground)
    if seen.sum() < LEAST_AREA:
        return NONE
    bright = pixels.max(axis=2)
    light = pixels[seen & (bright >= np.quantile(bright[seen], 0.6))]
    colour = _nearest(np.asarray(np.median(light, axis=0), np.float32), COLOURS)
    background = _nearest(ground, BACKGROUNDS)
    left, right = _ends(seen, axis=0)
    top, bottom = _ends(seen, axis=1)
    best, best_fit = NONE, LEAST_FIT
    for shape in SHAPES:
        reach, high = _reach(shape)
        words = Combination("large", colour, shape, background)
        for scale in (0.93, 1.0, 1.07):
            radius = scale * (right - left) / (2 * reach)
            if radius > LARGEST:
                continue
            middle = (top + bottom) / 2 - radius * high
            for y in (middle - 1, middle, middle + 1):
                drawn = Drawing(words, radius, (left + right) / 2, y)
                template = np.asarray(paint(drawn, striped=True), dtype=np.float32)
                wanted = _inside(template, _border_colour(template))
                fit = float((seen & wanted).sum() / (seen | wanted).sum())
                if fit > best_fit:
                    best, best_fit = shape, fit
    return best


def _inside(pixels: Array, ground: Array) -> NDArray[np.bool_]:
    """Which pixels stand out from the background, (32, 32)."""
    distance = np.linalg.norm(pixels - ground, axis=2)
    least = max(LEAST_CONTRAST / 2, 0.25 * float(np.quantile(distance, 0.99)))
    return np.asarray(distance > least)


def _ends(inside: NDArray[np.bool_], axis: int) -> tuple[int, int]:
    """Between which columns (axis 0) or rows (axis 1) the True pixels lie."""
    found = np.flatnonzero(inside.any(axis=axis))
    return int(found[0]), int(found[-1]) + 1


@lru_cache(maxsize=len(SHAPES))
def _reach(shape: str) -> tuple[float, float]:
    """Half the width of a shape of radius 1, and how far its middle lies below its centre."""
    radius, middle = 12.0, PICTURE / 2
    alpha = coverage(shape, radius, middle, middle) > 0.25
    left, right = _ends(alpha, axis=0)
    top, bottom = _ends(alpha, axis=1)
    return (right - left) / (2 * radius), ((top + bottom) / 2 - middle) / radius


def _border_colour(pixels: Array) -> Array:
    """Median colour of the outermost pixels, (3,)."""
    border = np.concatenate([pixels[0], pixels[-1], pixels[1:-1, 0], pixels[1:-1, -1]])
    return np.asarray(np.median(border, axis=0), dtype=np.float32)


def _foreground(pixels: Array, ground: Array) -> tuple[Array, Array | None]:
    """Coverage (32, 32) and colour (3,) of what differs from the background."""
    offset = pixels - ground
    distance = np.linalg.norm(offset, axis=2)
    # The colour comes from the pixels the shape covers fully: those farthest from the background.
    reach = float(np.median(np.sort(distance.ravel())[-16:]))
    if reach < LEAST_CONTRAST:
        return np.zeros(distance.shape, np.float32), None
    colour = np.median(pixels[distance > 0.8 * reach], axis=0).astype(np.float32)
    direction = colour - ground
    alpha = offset @ direction / float(direction @ direction)
    alpha = np.where(alpha < 0.15, 0.0, alpha)
    return np.clip(alpha, 0.0, 1.0).astype(np.float32), colour


def _nearest(colour: Array, palette: dict[str, tuple[int, int, int]]) -> str:
    return min(palette, key=lambda name: float(np.linalg.norm(colour - np.array(palette[name]))))


@lru_cache(maxsize=1)
def _templates() -> dict[str, _Template]:
    """Measured on large renderings, so that the judge follows the drawing code by itself."""
    radius, middle = 12.0, PICTURE / 2
    found = {}
    for shape in SHAPES:
        alpha = coverage(shape, radius, middle, middle)
        x, y = _centre_of_mass(alpha)
        area = float(alpha.sum()) / radius**2
        found[shape] = _Template(area, (x - middle) / radius, (y - middle) / radius)
    return found


def _centre_of_mass(alpha: Array) -> tuple[float, float]:
    """Weighted centre (x, y), pixels from the top left corner."""
    at = np.arange(PICTURE) + 0.5
    total = float(alpha.sum())
    return float((alpha.sum(axis=0) * at).sum()) / total, float(
        (alpha.sum(axis=1) * at).sum()
    ) / total


def _best_template(alpha: Array, area: float) -> tuple[str, float, float]:
    """Shape, radius in pixels and overlap of the template that covers `alpha` best."""
    x, y = _centre_of_mass(alpha)
    best = (NONE, 0.0, -1.0)
    for shape, template in _templates().items():
        radius = float(np.sqrt(area / template.area))
        for scale in (0.94, 1.0, 1.06):
            r = radius * scale
            drawn = coverage(shape, r, x - template.dx * r, y - template.dy * r)
            fit = float(np.minimum(drawn, alpha).sum() / np.maximum(drawn, alpha).sum())
            if fit > best[2]:
                best = (shape, radius, fit)
    return best
