"""Lab 01: the reading checkpoints, answered from the live schedulers."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import DDIMScheduler, DDPMScheduler, FlowMatchEulerDiscreteScheduler

from infralens.quiz import question

SCHEDULES = ("linear", "scaled_linear", "squaredcos_cap_v2")


def stable_diffusion(schedule: str = "scaled_linear") -> Any:
    """Stable Diffusion 1.x's training table."""
    return DDPMScheduler(1000, beta_start=0.00085, beta_end=0.012, beta_schedule=schedule)


@question(
    'Stable Diffusion\'s own code calls its schedule "linear" and computes '
    "`linspace(start ** 0.5, end ** 0.5, T) ** 2`. What is its `beta_schedule` in diffusers?",
    choices=SCHEDULES,
)
def name_of_the_schedule() -> str:
    """The roots are evenly spaced, which diffusers calls scaled_linear. Its "linear" spaces the
    betas themselves: with these ends it leaves a third as much signal at the last step."""
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2
    return next(
        name for name in SCHEDULES if torch.allclose(stable_diffusion(name).betas, betas, atol=1e-6)
    )


@question(
    "Stable Diffusion's table (scaled_linear, .00085 to .012, T = 1000): what is the first "
    "timestep at which x_t holds more noise than signal, by variance?"
)
def first_timestep_of_more_noise() -> int:
    """It is where alphas_cumprod falls below one half, and the SNR below 1. Two thirds of the
    timesteps lie on the noisy side."""
    return int((stable_diffusion().alphas_cumprod < 0.5).nonzero()[0])


@question(
    "A batch of two videos has shape (2, 4, 16, 32, 32). What must the shape of √ᾱ_t be, so that "
    "each video is multiplied by its own number?"
)
def shape_of_the_factor() -> tuple[int, ...]:
    """One number for each of the two videos, and an axis of length 1 for each axis of one video."""
    video, timesteps = torch.ones(2, 4, 16, 32, 32), torch.tensor([10, 900])
    factor = stable_diffusion().alphas_cumprod[timesteps]
    while factor.ndim < video.ndim:
        factor = factor.unsqueeze(-1)
    return tuple(factor.shape)


@question(
    "`DDPMScheduler.add_noise` with Stable Diffusion's table, in bfloat16, t = 0: original is 0 "
    "everywhere, the noise 1 everywhere. Which number comes out?"
)
def noise_left_in_bfloat16() -> float:
    """Nothing: the library casts the table to bfloat16 first, .99915 becomes 1, and 1 - 1 is 0. The
    formula gives .0292."""
    original = torch.zeros(1, 1, dtype=torch.bfloat16)
    timestep = torch.tensor([0])
    return float(stable_diffusion().add_noise(original, torch.ones_like(original), timestep))


@question(
    "A `DDIMScheduler` is made with `rescale_betas_zero_snr=True`, `clip_sample=False` and "
    "prediction_type epsilon. At the last training timestep, is the clean sample that `step` "
    "predicts finite?"
)
def finite_with_zero_snr() -> bool:
    """There ᾱ is 0 and x_t is the noise itself: x0 would be (x_t - ε) / 0. A model trained to zero
    SNR predicts v. (With clip_sample, the default, the infinities are clipped to 1 and nobody
    notices.)"""
    scheduler = DDIMScheduler(
        rescale_betas_zero_snr=True,
        clip_sample=False,
        prediction_type="epsilon",
        timestep_spacing="trailing",
    )
    scheduler.set_timesteps(10)
    sample = torch.ones(1, 4, 2, 2)
    stepped = scheduler.step(sample * 0.5, scheduler.timesteps[0], sample)
    return bool(stepped.pred_original_sample.isfinite().all())


@question(
    "Flow matching at σ = .25, with 8 for the clean sample and 4 for the noise: which number is "
    "the noisy sample?"
)
def flow_at_a_quarter() -> float:
    """A quarter of the way from data to noise: .75·8 + .25·4."""
    scheduler = FlowMatchEulerDiscreteScheduler()
    scheduler.set_timesteps(sigmas=[1.0, 0.25])
    data, noise = torch.tensor([[8.0]]), torch.tensor([[4.0]])
    return float(scheduler.scale_noise(data, scheduler.timesteps[1:], noise))
