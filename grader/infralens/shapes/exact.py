"""The best denoiser there is for a finite set of images, in closed form and without training.

Where the data are the images y_1 … y_N, each with a prior weight, what a network is trained towards
is known: given x = √ᾱ·y + √(1 − ᾱ)·ε, the mean of y is the images' mean, weighted by
prior · exp(−‖x − √ᾱ·y‖² / 2(1 − ᾱ)). ε, v and the velocity of flow matching follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from infralens.shapes.drawing import (
    BACKGROUNDS,
    COLOURS,
    SHAPES,
    SIZES,
    Drawing,
    combinations,
    draw_set,
    paint,
)


@dataclass(frozen=True)
class ExactDenoiser:
    """Predicts the clean image from a noisy one, exactly, for `images` (N, …), any float dtype.

    x is (B, …) with the images' axes. alpha_bar and sigma are numbers or tensors () or (B,). A
    `prior`, (N,) or (B, N), not negative, says how likely each image is before x is seen, as a
    caption does; None: all alike. It is computed in float64 and returned in x's dtype.
    """

    images: Tensor

    @cached_property
    def _flat(self) -> Tensor:
        return self.images.flatten(1).double()

    @cached_property
    def _squares(self) -> Tensor:
        return self._flat.square().sum(dim=1)

    def weights(self, x: Tensor, alpha_bar: Tensor | float, prior: Tensor | None = None) -> Tensor:
        """How likely each image is to lie under the noise: float64 (B, N), rows that add to 1.

        0 ≤ alpha_bar < 1. ‖x‖² is the same for every image, so one matrix product is enough.
        ValueError where alpha_bar is 1 (no noise: nothing to be guessed) or a prior is all zero.
        """
        kept = _column(alpha_bar)
        if not bool(((kept >= 0) & (kept < 1)).all()):
            raise ValueError("alpha_bar must lie in [0, 1)")
        products = x.flatten(1).double() @ self._flat.T
        scores = (kept.sqrt() * products - kept * self._squares / 2) / (1 - kept)
        if prior is not None:
            if not bool((prior.reshape(-1, len(self._flat)).sum(dim=1) > 0).all()):
                raise ValueError("a prior leaves no image possible")
            scores = scores + prior.double().log()
        return scores.softmax(dim=1)

    def original(self, x: Tensor, alpha_bar: Tensor | float, prior: Tensor | None = None) -> Tensor:
        """The mean of the clean image, given x: (B, …)."""
        mean = self.weights(x, alpha_bar, prior) @ self._flat
        return mean.reshape(x.shape).to(x.dtype)

    def epsilon(self, x: Tensor, alpha_bar: Tensor | float, prior: Tensor | None = None) -> Tensor:
        """The mean of the noise: ε = (x − √ᾱ·x0) / √(1 − ᾱ)."""
        kept = _beside(alpha_bar, x)
        wide = x.double()
        x0 = self.original(wide, alpha_bar, prior)
        return ((wide - kept.sqrt() * x0) / (1 - kept).sqrt()).to(x.dtype)

    def velocity(self, x: Tensor, alpha_bar: Tensor | float, prior: Tensor | None = None) -> Tensor:
        """The mean of v = √ᾱ·ε − √(1 − ᾱ)·x0, which is (√ᾱ·x − x0) / √(1 − ᾱ)."""
        kept = _beside(alpha_bar, x)
        wide = x.double()
        x0 = self.original(wide, alpha_bar, prior)
        return ((kept.sqrt() * wide - x0) / (1 - kept).sqrt()).to(x.dtype)

    def flow(self, x: Tensor, sigma: Tensor | float, prior: Tensor | None = None) -> Tensor:
        """The mean of ε − x0 for x = (1 − σ)·x0 + σ·ε with 0 < σ ≤ 1: (x − x0) / σ.

        x / √((1 − σ)² + σ²) has the variances of ᾱ = (1 − σ)² / ((1 − σ)² + σ²).
        """
        level = _beside(sigma, x)
        size = (1 - level).square() + level.square()
        wide = x.double()
        alpha_bar = ((1 - level).square() / size).flatten()
        x0 = self.original(wide / size.sqrt(), alpha_bar, prior)
        return ((wide - x0) / level).to(x.dtype)


def _column(value: Tensor | float) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64).reshape(-1, 1)


def _beside(value: Tensor | float, x: Tensor) -> Tensor:
    """The value with as many axes as x, so that it multiplies sample by sample."""
    return _column(value).reshape(-1, *[1] * (x.ndim - 1))


@dataclass(frozen=True)
class CaptionedPictures:
    """Drawings and what they look like: `images` float32 (N, 3, 32, 32), from −1 to 1."""

    drawings: tuple[Drawing, ...]
    images: Tensor

    @cached_property
    def denoiser(self) -> ExactDenoiser:
        return ExactDenoiser(self.images)

    def prior(self, caption: str, mislabelled: float = 0.0) -> Tensor:
        """What a caption says of the pictures: float64 (N,), adding to 1.

        The pictures that all its words fit are alike likely. With `mislabelled`, a share of the
        captions says nothing: such a caption could stand under any picture, so a denoiser that
        trusts it does so with reserve, as one does that was trained on collected captions. An empty
        caption fits all. ValueError for a caption that no picture fits.
        """
        wanted = _known(caption)
        named = [set(_known(drawing.combination.caption)) for drawing in self.drawings]
        fits = torch.tensor([words.issuperset(wanted) for words in named], dtype=torch.float64)
        if not bool(fits.any()):
            raise ValueError(f"no picture fits {caption!r}")
        count = len(self.drawings)
        return (1 - mislabelled) * fits / fits.sum() + mislabelled / count


def _known(caption: str) -> list[str]:
    """The words that describe a picture, in order; "a", "on" and the like say nothing."""
    telling = {*SIZES, *COLOURS, *SHAPES, *BACKGROUNDS}
    return [word for word in caption.lower().split() if word in telling]


def captioned_pictures(count: int = 800, seed: int = 0) -> CaptionedPictures:
    """Drawings of all combinations, the held-out ones too: nothing is trained here."""
    return pictures_of(draw_set(count, seed, combinations()))


def pictures_of(drawings: Sequence[Drawing]) -> CaptionedPictures:
    """These drawings, painted."""
    pixels = np.stack([np.asarray(paint(drawing)) for drawing in drawings])
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    return CaptionedPictures(tuple(drawings), images.contiguous())
