"""Lab 02: one step under each prediction type, from one noisy picture."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import DDIMScheduler
from matplotlib.figure import Figure
from torch import Tensor

from infralens.shapes.exact import captioned_pictures
from infralens.show.pictures.answers import tensor
from infralens.show.pictures.look import INK, LIBRARY, MINE, row, sheet

PICTURES = 400
CAPTION = "a large orange star"
LEVELS = (500, 250)
"""From one to the other in one of four steps: large enough to be seen."""

KINDS = {"epsilon": "epsilon", "sample": "original", "v_prediction": "velocity"}
"""Each prediction type, and what the exact denoiser calls it."""


def draw(mine: Any, seed: int) -> Figure:
    """A row a prediction type: what the network says, what the learner and diffusers make of it."""
    pictures = captioned_pictures(PICTURES)
    prior = pictures.prior(CAPTION)
    clean = pictures.images[int(prior.argmax())][None]
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))
    table = _library("epsilon").alphas_cumprod
    here, there = table[LEVELS[0]], table[LEVELS[1]]
    x = here.sqrt() * clean + (1 - here).sqrt() * noise
    shape = tuple(x.shape)

    title = f"Lab 02 · one DDIM step from t = {LEVELS[0]} to {LEVELS[1]}, by three predictions"
    figure = sheet(9.6, 5.1, title)
    for i, (kind, said) in enumerate(KINDS.items()):
        output = getattr(pictures.denoiser, said)(x, here, prior)
        wanted = _library(kind).step(output, LEVELS[0], x)
        x0 = tensor(mine.predict_original(output, x, here, kind), shape, "predict_original")
        epsilon = tensor(mine.predict_epsilon(output, x, here, kind), shape, "predict_epsilon")
        step = mine.ddim_step(output, x, here, there, kind, 0.0, None)
        images = {
            ("noisy sample", INK): x,
            (f"network: {kind}", INK): output,
            ("yours: x0", MINE): x0,
            ("yours: ε", MINE): epsilon,
            ("yours: next", MINE): tensor(step, shape, "ddim_step"),
            ("diffusers: x0", LIBRARY): wanted.pred_original_sample,
            ("diffusers: next", LIBRARY): wanted.prev_sample,
        }
        box = (0.05, 0.64 - 0.305 * i, 0.94, 0.238)
        titles = list(images)
        row(figure, [_seen(each) for each in images.values()], titles, name=kind, box=box)
    return figure


def _seen(image: Tensor) -> Tensor:
    """An image of the batch of one; what is mostly noise is shown at half its size."""
    one = image[0].double()
    return one / 2 if one.abs().max() > 1.5 else one


def _library(kind: str) -> DDIMScheduler:
    """A scheduler that steps from the first of LEVELS to the second."""
    scheduler = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        prediction_type=kind,
    )
    scheduler.set_timesteps(1000 // (LEVELS[0] - LEVELS[1]))
    return scheduler
