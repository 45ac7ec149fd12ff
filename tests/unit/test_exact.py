"""The exact denoiser: against plain sums, at its limits, and with captions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from infralens.shapes.drawing import Combination, Drawing
from infralens.shapes.exact import CaptionedPictures, ExactDenoiser, pictures_of

IMAGES = torch.randn((7, 2, 3), generator=torch.Generator().manual_seed(1))
DENOISER = ExactDenoiser(IMAGES)


def noisy(count: int = 3, seed: int = 2) -> Tensor:
    return torch.randn((count, 2, 3), generator=torch.Generator().manual_seed(seed))


def summed(x: Tensor, alpha_bar: float, prior: Tensor | None = None) -> Tensor:
    """The weighted mean as the formula is written, in float64, one image after the other."""
    answers = []
    for one in x.double():
        gaps = [(one - math.sqrt(alpha_bar) * y).square().sum().item() for y in IMAGES.double()]
        weights = [math.exp(-gap / (2 * (1 - alpha_bar))) for gap in gaps]
        if prior is not None:
            weights = [w * p for w, p in zip(weights, prior.tolist(), strict=True)]
        total = sum(w * y for w, y in zip(weights, IMAGES.double(), strict=True))
        answers.append(total / sum(weights))
    return torch.stack(answers)


@pytest.mark.parametrize("alpha_bar", [0.0, 0.0047, 0.3, 0.9])
def test_the_mean_is_that_of_a_plain_sum(alpha_bar: float) -> None:
    x = noisy()
    torch.testing.assert_close(DENOISER.original(x.double(), alpha_bar), summed(x, alpha_bar))


def test_a_prior_weighs_and_its_zeros_leave_out() -> None:
    x, prior = noisy(), torch.tensor([0.0, 1.0, 2.0, 0.0, 5.0, 0.5, 0.0])
    answer = DENOISER.original(x.double(), 0.4, prior)
    torch.testing.assert_close(answer, summed(x, 0.4, prior))
    kept = ExactDenoiser(IMAGES[prior > 0]).original(x.double(), 0.4, prior[prior > 0])
    torch.testing.assert_close(answer, kept)


def test_each_sample_has_its_own_level_and_prior() -> None:
    x, levels = noisy(2), torch.tensor([0.1, 0.8])
    priors = torch.tensor([[1.0] * 7, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    both = DENOISER.epsilon(x, levels, priors)
    for i in range(2):
        alone = DENOISER.epsilon(x[i : i + 1], levels[i], priors[i])
        torch.testing.assert_close(both[i : i + 1], alone)


def test_without_signal_it_is_the_mean_of_all() -> None:
    torch.testing.assert_close(DENOISER.original(noisy(), 0.0)[0], IMAGES.mean(dim=0))


def test_almost_without_noise_it_is_the_image_itself() -> None:
    alpha_bar = 1 - 1e-9
    answer = DENOISER.original(math.sqrt(alpha_bar) * IMAGES + 1e-5, alpha_bar)
    torch.testing.assert_close(answer, IMAGES)
    assert DENOISER.weights(IMAGES, alpha_bar).isfinite().all()


@pytest.mark.parametrize("alpha_bar", [0.05, 0.6])
def test_every_prediction_is_of_the_same_image(alpha_bar: float) -> None:
    x = noisy().double()
    kept, spread = math.sqrt(alpha_bar), math.sqrt(1 - alpha_bar)
    x0, epsilon = DENOISER.original(x, alpha_bar), DENOISER.epsilon(x, alpha_bar)
    torch.testing.assert_close(kept * x0 + spread * epsilon, x)
    torch.testing.assert_close(DENOISER.velocity(x, alpha_bar), kept * epsilon - spread * x0)


@pytest.mark.parametrize("sigma", [0.2, 0.7, 1.0])
def test_flow_is_the_mean_of_noise_less_image_on_the_straight_line(sigma: float) -> None:
    x, images = noisy().double(), IMAGES.double()
    gaps = (x[:, None] - (1 - sigma) * images).flatten(2).square().sum(dim=2)
    x0 = torch.einsum("bn,nhw->bhw", (-gaps / (2 * sigma**2)).softmax(dim=1), images)
    noise = (x - (1 - sigma) * x0) / sigma
    torch.testing.assert_close(DENOISER.flow(x, sigma), noise - x0)


def test_what_cannot_be_guessed_is_refused() -> None:
    for level in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="alpha_bar"):
            DENOISER.original(noisy(), level)
    with pytest.raises(ValueError, match="no image"):
        DENOISER.original(noisy(), 0.5, torch.zeros(7))


def shown() -> CaptionedPictures:
    named = [("large", "red", "star"), ("small", "red", "star"), ("large", "blue", "ring")]
    combinations = [Combination(*words, "navy") for words in named]
    return pictures_of([Drawing(each, 7.0, 16.0, 16.0) for each in combinations])


def test_a_caption_leaves_the_pictures_that_all_its_words_fit() -> None:
    pictures = shown()
    assert pictures.images.shape == (3, 3, 32, 32)
    assert pictures.images.abs().max() <= 1
    assert pictures.prior("a red star on navy background").tolist() == [0.5, 0.5, 0.0]
    assert pictures.prior("a large star").tolist() == [1.0, 0.0, 0.0]
    assert pictures.prior("").tolist() == pytest.approx([1 / 3] * 3)
    assert pictures.prior("ring", mislabelled=0.3).tolist() == pytest.approx([0.1, 0.1, 0.8])
    with pytest.raises(ValueError, match="green"):
        pictures.prior("a green star")
