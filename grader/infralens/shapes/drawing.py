"""Draws the captioned pictures that every part of the shapes pipeline learns from.

A picture is one filled shape on a plain background, 32 x 32 pixels, RGB. Everything in it follows
from a `Drawing`, so the same drawing can be painted plain, painted with stripes, turned into an
edge map or turned into a coverage mask.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw

PICTURE = 32
"""Width and height of a picture, pixels."""

SUPERSAMPLING = 8
"""Linear factor by which shapes are drawn larger before they are averaged down."""

CENTRED = 0.7
"""Share of shapes on the grid that stand in the middle of the picture."""

WRONG_WORD = 0.1
"""Chance of each word of a training caption to be replaced by a wrong one."""

STRIPE = 2.0
"""Height of one light or dark stripe, pixels: a pair of them fills one latent."""

STRIPE_SHADE = 0.4
"""Brightness of a dark stripe as a fraction of the shape's colour."""

SHAPES: tuple[str, ...] = ("circle", "square", "triangle", "star", "cross", "ring")

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 30, 35),
    "green": (35, 165, 60),
    "blue": (55, 95, 240),
    "yellow": (250, 225, 45),
    "purple": (150, 55, 190),
    "orange": (245, 135, 20),
    "cyan": (60, 210, 225),
    "pink": (250, 150, 190),
}

BACKGROUNDS: dict[str, tuple[int, int, int]] = {
    "black": (10, 10, 10),
    "white": (245, 245, 245),
    "gray": (125, 125, 125),
    "navy": (15, 25, 80),
}

SIZES: dict[str, tuple[float, float]] = {"small": (6.0, 7.0), "large": (10.5, 12.0)}
"""Range of radii for each size word, pixels, where shapes are scattered freely."""

RADII: dict[str, float] = {"small": 7.0, "large": 11.0}
"""Radius for each size word, pixels, where shapes stand on the grid."""

GRID = 4.0
"""Distance between two places a shape's centre can have, pixels: one latent.

A shape that moves by whole latents looks the same to the UNet wherever it stands, which makes the
outlines far quicker to learn than with free places: 9 places for a large shape, 25 for a small one.
"""

MARGIN = 1.0
"""Least distance between a shape's circumscribed box and the picture's border, pixels."""

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Combination:
    """What a full caption names."""

    size: str
    colour: str
    shape: str
    background: str

    @property
    def caption(self) -> str:
        return f"a {self.size} {self.colour} {self.shape} on {self.background} background"


@dataclass(frozen=True)
class Drawing:
    """A combination with its geometry: radius and centre in pixels from the top left corner."""

    combination: Combination
    radius: float
    x: float
    y: float


def combinations() -> list[Combination]:
    """All 384 combinations, in a fixed order."""
    return [
        Combination(size, colour, shape, background)
        for size in SIZES
        for colour in COLOURS
        for shape in SHAPES
        for background in BACKGROUNDS
    ]


@cache
def held_out(count: int = 60, seed: int = 2024) -> frozenset[Combination]:
    """The combinations that are never drawn for training.

    They are chosen at random, so each word still occurs in many other combinations: a model that
    gets them right has put the words together itself.
    """
    return frozenset(random.Random(seed).sample(combinations(), count))


def place(combination: Combination, rng: random.Random) -> Drawing:
    """Put a shape in the middle, or on the grid at a random place that keeps it in the picture."""
    radius = RADII[combination.size]
    if rng.random() < CENTRED:
        return Drawing(combination, radius, PICTURE / 2, PICTURE / 2)
    places = [
        GRID * k
        for k in range(int(PICTURE / GRID) + 1)
        if radius + MARGIN <= GRID * k <= PICTURE - radius - MARGIN
    ]
    return Drawing(combination, radius, rng.choice(places), rng.choice(places))


def scatter(combination: Combination, rng: random.Random) -> Drawing:
    """Put a shape anywhere in the picture, with a radius that fits the size word."""
    radius = rng.uniform(*SIZES[combination.size])
    low, high = radius + MARGIN, PICTURE - radius - MARGIN
    return Drawing(combination, radius, rng.uniform(low, high), rng.uniform(low, high))


def draw_set(
    count: int,
    seed: int,
    allowed: Sequence[Combination] | None = None,
    put: Callable[[Combination, random.Random], Drawing] = place,
) -> list[Drawing]:
    """`count` drawings of combinations that are not held out, or of the `allowed` ones."""
    if allowed is None:
        kept_back = held_out()
        allowed = [c for c in combinations() if c not in kept_back]
    rng = random.Random(seed)
    return [put(rng.choice(allowed), rng) for _ in range(count)]


def _outline(shape: str, radius: float, x: float, y: float) -> Points:
    """Corners of a polygon shape; y grows downwards."""
    if shape == "square":
        h = radius * 0.86
        return [(x - h, y - h), (x + h, y - h), (x + h, y + h), (x - h, y + h)]
    if shape == "triangle":
        return [(x, y - radius), (x + radius, y + radius * 0.82), (x - radius, y + radius * 0.82)]
    if shape == "star":
        # An inner radius of 0.45 instead of the usual 0.38 keeps the arms of a small star
        # two pixels wide, which is what the autoencoder can still show.
        return [
            (x + r * math.sin(k * math.pi / 5), y - r * math.cos(k * math.pi / 5))
            for k in range(10)
            for r in (radius * 1.08 if k % 2 == 0 else radius * 0.45,)
        ]
    if shape == "cross":
        a, r = radius * 0.34, radius
        return [
            (x - a, y - r),
            (x + a, y - r),
            (x + a, y - a),
            (x + r, y - a),
            (x + r, y + a),
            (x + a, y + a),
            (x + a, y + r),
            (x - a, y + r),
            (x - a, y + a),
            (x - r, y + a),
            (x - r, y - a),
            (x - a, y - a),
        ]
    raise ValueError(f"not a polygon: {shape}")


def _stencil(shape: str, radius: float, x: float, y: float) -> Image.Image:
    """The shape in white on black at the supersampled size, mode "L"."""
    s = SUPERSAMPLING
    image = Image.new("L", (PICTURE * s, PICTURE * s), 0)
    pen = ImageDraw.Draw(image)

    def disc(r: float, value: int) -> None:
        box = ((x - r) * s, (y - r) * s, (x + r) * s - 1, (y + r) * s - 1)
        pen.ellipse(box, fill=value)

    if shape in ("circle", "ring"):
        disc(radius, 255)
        if shape == "ring":
            disc(radius * 0.5, 0)
    else:
        pen.polygon([(px * s, py * s) for px, py in _outline(shape, radius, x, y)], fill=255)
    return image


def coverage(shape: str, radius: float, x: float, y: float) -> NDArray[np.float32]:
    """Share of each pixel that the shape covers: (32, 32), 0 to 1."""
    small = _stencil(shape, radius, x, y).reduce(SUPERSAMPLING)
    return np.asarray(small, dtype=np.float32) / 255.0


def mask(drawing: Drawing) -> NDArray[np.float32]:
    """Coverage of a drawing's shape: (32, 32), 0 to 1."""
    return coverage(drawing.combination.shape, drawing.radius, drawing.x, drawing.y)


def paint(drawing: Drawing, striped: bool = False) -> Image.Image:
    """The picture, 32 x 32 RGB; `striped` fills the shape with light and dark rows."""
    c = drawing.combination
    stencil = _stencil(c.shape, drawing.radius, drawing.x, drawing.y)
    fill = Image.new("RGB", stencil.size, COLOURS[c.colour])
    if striped:
        shade = tuple(round(v * STRIPE_SHADE) for v in COLOURS[c.colour])
        pen = ImageDraw.Draw(fill)
        height = round(STRIPE * SUPERSAMPLING)
        # Rows are counted from the picture's top: the phase is the same in every picture,
        # so a style adapter does not have to invent one.
        for top in range(height, stencil.size[1], 2 * height):
            pen.rectangle((0, top, stencil.size[0], top + height - 1), fill=shade)
    ground = Image.new("RGB", stencil.size, BACKGROUNDS[c.background])
    return Image.composite(fill, ground, stencil).reduce(SUPERSAMPLING)


def edges(drawing: Drawing) -> Image.Image:
    """The shape's outline in white on black, one to two pixels wide, 32 x 32 RGB."""
    c = drawing.combination
    stencil = _stencil(c.shape, drawing.radius, drawing.x, drawing.y)
    return outline_of(stencil)


def outline_of(stencil: Image.Image) -> Image.Image:
    """Edge map of any supersampled white-on-black stencil (mode "L"): 32 x 32 RGB."""
    reach = SUPERSAMPLING // 2
    inner = stencil
    outer = stencil
    for _ in range(reach):
        inner = _shrink(inner)
        outer = ImageChops.invert(_shrink(ImageChops.invert(outer)))
    return ImageChops.subtract(outer, inner).reduce(SUPERSAMPLING).convert("RGB")


def _shrink(image: Image.Image) -> Image.Image:
    """Erode by one pixel up, down, left and right."""
    pixels = np.pad(np.asarray(image), 1, mode="edge")
    least = np.minimum.reduce(
        [
            pixels[1:-1, 1:-1],
            pixels[:-2, 1:-1],
            pixels[2:, 1:-1],
            pixels[1:-1, :-2],
            pixels[1:-1, 2:],
        ]
    )
    return Image.fromarray(least)


def mislabel(combination: Combination, rng: random.Random) -> Combination:
    """The combination with each word replaced by another of its kind with chance `WRONG_WORD`.

    Captions of collected pictures are partly wrong. A model that learned from such captions draws
    wrong pictures too, unless guidance sharpens what it believes: so one can see what guidance
    does. A combination stays as it is where a held-out one would come out, so that none is taught
    with pictures of others.
    """

    def perhaps_wrong(right: str, kind: Iterable[str]) -> str:
        wrong = [value for value in kind if value != right]
        return rng.choice(wrong) if rng.random() < WRONG_WORD else right

    c = combination
    changed = Combination(
        size=perhaps_wrong(c.size, SIZES),
        colour=perhaps_wrong(c.colour, COLOURS),
        shape=perhaps_wrong(c.shape, SHAPES),
        background=perhaps_wrong(c.background, BACKGROUNDS),
    )
    return c if changed in held_out() else changed


def words(combination: Combination, rng: random.Random) -> str:
    """A training caption: mostly the full one, sometimes with parts left out.

    Parts left out teach the model what single words mean, which is what a negative prompt such
    as "red" asks of it. One caption in twenty carries a made-up word, so that a word the
    tokenizer has to spell out disturbs the picture as little as possible.
    """
    c = combination
    kind = rng.random()
    if kind < 0.7:
        parts = c.caption.split()
    else:
        size, colour, shape, background = (
            word if rng.random() < 0.5 else "" for word in (c.size, c.colour, c.shape, c.background)
        )
        if kind < 0.85:
            parts = ["a", size, colour, shape or "shape"]
            parts += ["on", background, "background"] if background else []
        else:
            parts = [size, colour, shape]
            parts += [background, "background"] if background else []
    parts = [part for part in parts if part]
    if rng.random() < 0.05:
        made_up = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 7)))
        parts.insert(rng.randint(0, len(parts)), made_up)
    return " ".join(parts)
