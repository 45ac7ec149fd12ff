"""Lab 02: the checkpoints of the page, answered by the live library."""

from __future__ import annotations

import torch
from diffusers import DDIMScheduler, DDPMScheduler

from infralens.quiz import question


def one_level(**config: object) -> DDIMScheduler:
    """A scheduler whose only timestep, 0, has alpha_bar .36."""
    library = DDIMScheduler(1, trained_betas=[0.64], clip_sample=False, **config)
    library.set_timesteps(1)
    return library


def guess(library: DDIMScheduler, output: float, sample: float) -> float:
    """The scheduler's guess of x0 at timestep 0 for one value."""
    y, x = (torch.full((1, 1, 1, 1), value) for value in (output, sample))
    return float(library.step(y, 0, x).pred_original_sample)


@question(
    "At a timestep where ᾱ = .36 a value of the sample is 1.6 and an ε model answers .5. What is "
    "the guess of x0?"
)
def guess_of_an_epsilon_model() -> float:
    """(1.6 − √.64·.5) / √.36 = 1.2 / .6 = 2: take the noise out at its weight, then divide by the
    weight of the signal."""
    return guess(one_level(prediction_type="epsilon"), 0.5, 1.6)


@question(
    "The same ᾱ, sample and output, but the model is configured with `v_prediction`. What is the "
    "guess of x0 now?"
)
def guess_of_a_v_model() -> float:
    """√.36·1.6 − √.64·.5 = .96 − .4 = .56. The tensor is the same; the configuration says what it
    means."""
    return guess(one_level(prediction_type="v_prediction"), 0.5, 1.6)


@question(
    "`DDIMScheduler()` with every argument at its default is used on latents. The guess of x0 has "
    "a value of 3.2. What does the scheduler make of it?"
)
def clipped_by_default() -> float:
    """1: clip_sample is True by default, which is meant for pixels. Stable Diffusion sets it to
    False."""
    library = DDIMScheduler()
    library.set_timesteps(10)
    t = int(library.timesteps[3])
    x = torch.full((1, 1, 1, 1), 3.2) * library.alphas_cumprod[t] ** 0.5  # with ε = 0, x0 is 3.2
    return float(library.step(torch.zeros_like(x), t, x).pred_original_sample)


@question("A step goes from ᾱ = .2 to ᾱ = .5. What is the variance of the fresh noise at eta 1?")
def exchanged_variance() -> float:
    """(1 − .5) / (1 − .2)·(1 − .2 / .5) = .375. The old noise keeps 1 − .5 − .375 = .125."""
    library = DDIMScheduler(2, trained_betas=[0.5, 0.6])  # alphas_cumprod is .5 and .2
    library.set_timesteps(2)
    nothing = torch.zeros(1, 1, 1, 1)
    step = library.step(nothing, 1, nothing, eta=1.0, variance_noise=torch.ones(1, 1, 1, 1))
    return float(step.prev_sample) ** 2


@question(
    '`DDPMScheduler` with `fixed_large` and "trailing" spacing takes 10 of 1000 steps, so the last '
    "one starts from t = 99. Does its result depend on the random generator?"
)
def noise_on_the_result() -> bool:
    """Yes, in diffusers 0.42.1: it adds noise while t > 0, and this run is over before t gets
    there. The formula adds none in the last step, and neither does your `ddpm_step`."""
    library = DDPMScheduler(variance_type="fixed_large", timestep_spacing="trailing")
    library.set_timesteps(10)
    x, t = torch.zeros(1, 1, 2, 2), library.timesteps[-1]
    one, other = (
        library.step(x, t, x, generator=torch.Generator().manual_seed(seed)).prev_sample
        for seed in (1, 2)
    )
    return not torch.equal(one, other)


@question(
    "`DDPMScheduler(thresholding=True)`, all else at its default, meets a guess in which one value "
    "is .5 and all others are 2.5. What does it make of the .5?"
)
def thresholded_by_default() -> float:
    """.5, as it was. sample_max_value is 1 by default, so the bound s is 1 and nothing is divided:
    this is plain clipping. With a larger one it would be .5 / 2.5 = .2."""
    library = DDPMScheduler(thresholding=True, prediction_type="sample")
    x0 = torch.full((1, 1, 20, 20), 2.5)
    x0[..., 0, 0] = 0.5
    return float(library.step(x0, 0, x0).pred_original_sample[0, 0, 0, 0])
