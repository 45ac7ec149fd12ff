"""A Stable Diffusion small enough to run inside a check, and a watched run of its pipeline.

The weights are random, seeded and never saved: a mistake shows in numbers, not in pictures.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import Tensor

from infralens.examiner import Recorded, recorded, remote
from infralens.suites.networks import frozen, seeded
from infralens.suites.pipelines import pipeline_of
from infralens.suites.schedulers import LentScheduler, watched

LATENT_CHANNELS = 4
EMBED_WIDTH = 24


@functools.lru_cache
def unet(device: str = "cpu") -> Any:
    """UNet2DConditionModel: latents (B, 4, H, W) of any sides, embeddings (B, L, 24).

    One level, no middle, and one attention to the text on the way down: a call takes few
    milliseconds.
    """
    with seeded(4):
        module = UNet2DConditionModel(
            sample_size=8,
            in_channels=LATENT_CHANNELS,
            out_channels=LATENT_CHANNELS,
            block_out_channels=(16,),
            layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D",),
            mid_block_type=None,
            up_block_types=("UpBlock2D",),
            cross_attention_dim=EMBED_WIDTH,
            attention_head_dim=4,  # the number of heads
            norm_num_groups=8,
        )
    return frozen(module, device)


@functools.lru_cache
def vae(device: str = "cpu") -> Any:
    """AutoencoderKL: images (B, 3, 2H, 2W), latents (B, 4, H, W)."""
    with seeded(5):
        module = AutoencoderKL(
            block_out_channels=(8, 16),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            latent_channels=LATENT_CHANNELS,
            norm_num_groups=4,
        )
    return frozen(module, device)


def pipeline(with_scheduler: Any, device: str = "cpu") -> Any:
    """A StableDiffusionPipeline without a text encoder: give it embeddings."""
    parts = {"vae": vae(device), "unet": unet(device), "scheduler": with_scheduler}
    return pipeline_of("StableDiffusionPipeline", **parts)


def denoiser(device: str = "cpu") -> Recorded:
    """The UNet as a function of (latents, t, embeds), with a list of its calls. Lend it."""
    module = unet(device)
    return recorded(lambda latents, t, embeds: module(latents, t, embeds).sample, "denoiser")


USED_BY_A_LOOP: dict[str, Any] = {
    "attributes": ["timesteps", "init_noise_sigma"],
    "methods": ["set_timesteps", "scale_model_input", "step"],
}


def lent(scheduler: Any) -> Any:
    """The scheduler, to be lent to a learner's loop; `.target.steps` are the steps it made."""
    return remote(LentScheduler(scheduler), **USED_BY_A_LOOP)


@dataclass
class Run:
    """What happened in a run of the pipeline, in order."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)  # UNet: latents, t, embeds
    steps: list[tuple[Any, ...]] = field(default_factory=list)  # step: model_output, t, sample
    latents: Any = None


def run_of(pipe: Any, latents: Tensor, **call: Any) -> Run:
    """Run the pipeline from these latents to latents, and watch its UNet and its scheduler."""
    run = Run()
    # The pipeline demands multiples of 8 and then takes the latents as they are.
    sides = {"height": latents.shape[-2] * 8, "width": latents.shape[-1] * 8}
    with watched(pipe, run.calls, run.steps):
        run.latents = pipe(latents=latents, output_type="latent", **sides, **call).images
    return run
