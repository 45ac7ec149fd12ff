"""Lab 04: the same noise under a row of guidance scales, by the learner's guidance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers import DDIMScheduler
from matplotlib.figure import Figure
from torch import Tensor

from infralens.shapes.exact import CaptionedPictures, captioned_pictures
from infralens.show.pictures.answers import NotDrawnError, tensor
from infralens.show.pictures.look import LIBRARY, MINE, row, sheet

PICTURES = 400
PROMPT = "a large red star"
MISLABELLED = 0.7
"""Share of captions that say nothing of their picture: without guidance few pictures fit theirs."""

SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)
SAMPLES, STEPS = 5, 15

Network = Callable[[Tensor, Any, Tensor], Tensor]


def draw(mine: Any, seed: int) -> Figure:
    """A row a guidance scale: five pictures of the learner's guidance, five of the pipeline's."""
    pictures = captioned_pictures(PICTURES)
    noise = torch.randn((SAMPLES, 3, 32, 32), generator=torch.Generator().manual_seed(seed))
    negative, prompt = embeds_of(pictures, ""), embeds_of(pictures, PROMPT)
    network = network_of(pictures)

    def yours(x: Tensor, t: Tensor, scale: float) -> Tensor:
        answer = mine.guided_prediction(network, x, t, negative, prompt, scale)
        return tensor(answer, tuple(x.shape), "guided_prediction").float()

    def pipeline(x: Tensor, t: Tensor, scale: float) -> Tensor:
        """As StableDiffusionPipeline.__call__ does: two predictions, and a line through them."""
        uncond, cond = network(x, t, negative), network(x, t, prompt)
        return uncond + scale * (cond - uncond)

    figure = sheet(9.6, 5.4, f'Lab 04 · "{PROMPT}" at five guidance scales, from the same noise')
    for i, scale in enumerate(SCALES):
        bottom = 0.735 - 0.178 * i
        for left, name, colour, predict in (
            (0.075, "yours", MINE, yours),
            (0.555, "diffusers", LIBRARY, pipeline),
        ):
            images = list(sampled(predict, noise, scale))
            titles = [(name if k == 0 and i == 0 else "", colour) for k in range(SAMPLES)]
            box = (left, bottom, 0.435, 0.165)
            label = f"w = {scale:g}" if name == "yours" else ""
            row(figure, images, titles, name=label, box=box)
    return figure


def sampled(
    predict: Callable[[Tensor, Tensor, float], Tensor], noise: Tensor, scale: float
) -> Tensor:
    """Pictures out of noise by DDIM."""
    scheduler = _scheduler()
    scheduler.set_timesteps(STEPS)
    x = noise
    for t in scheduler.timesteps:
        x = scheduler.step(predict(x, t, scale), t, x).prev_sample
    return x


def embeds_of(pictures: CaptionedPictures, caption: str) -> Tensor:
    """A caption as the network takes it, (SAMPLES, 1, N): how likely it makes each picture."""
    prior = pictures.prior(caption, MISLABELLED if caption else 0.0)
    return prior.float().expand(SAMPLES, 1, -1).contiguous()


def network_of(pictures: CaptionedPictures) -> Network:
    """The exact denoiser as a network: (x, t, embeds) → ε. What it is handed may be anything."""
    kept = _scheduler().alphas_cumprod

    def network(x: Tensor, t: Any, embeds: Tensor) -> Tensor:
        batch = len(x) if isinstance(x, Tensor) and x.ndim == 4 else 0
        if not 1 <= batch <= 4 * SAMPLES:
            raise NotDrawnError(f"the network takes up to {4 * SAMPLES} images at once")
        prior = tensor(embeds, (batch, 1, len(pictures.images)), "embeds").squeeze(1)
        seen = tensor(x, (batch, 3, 32, 32), "latents")
        if not bool(((prior >= 0).all(dim=1) & (prior.sum(dim=1) > 0)).all()):
            raise NotDrawnError("these embeds are of no prompt")
        time = min(max(int(t), 0), len(kept) - 1)
        return pictures.denoiser.epsilon(seen, kept[time], prior).float()

    return network


def _scheduler() -> DDIMScheduler:
    """DDPM's schedule: at its end the noise says so little that prompt and guidance can choose."""
    return DDIMScheduler(clip_sample=False, timestep_spacing="trailing")
