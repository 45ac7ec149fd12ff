"""Lab 01 · Forward noise process: how a noisy training example is made.

Goal: read the one half of diffusion that is fixed. ᾱ_t says how much of the signal is left at
training step t; the noise is sampled, not learned; x_t is what the network is shown, and one of
ε, x0 and v is what it is asked for. All of it is made for training. At inference only a run that
starts from a picture (image to image, inpainting) makes an x_t. Nothing in this file generates.

Symbols: T = num_train_timesteps, t = a training step from 0 to T − 1, β = betas,
ᾱ = alphas_cumprod, x0 = original (clean), ε = noise, x_t = the noisy sample, σ = the noise level of
flow matching.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

import math

import torch
from torch import Tensor


def betas(schedule: str, num_train_timesteps: int, beta_start: float, beta_end: float) -> Tensor:
    """1.1 · How much noise each of the T small steps adds.

    Returns float32 (T,), variances between 0 and 1. Three schedules, by diffusers' names:

    * "linear": T values evenly from beta_start to beta_end, both ends included.
    * "scaled_linear": the *roots* are even, from √beta_start to √beta_end; then squared. Stable
      Diffusion's own code calls this one "linear".
    * "squaredcos_cap_v2": ᾱ follows f(s) = cos²((s + 0.008) / 1.008 · π / 2), and
      β_i = 1 − f((i + 1) / T) / f(i / T), but never more than 0.999. It ignores beta_start and
      beta_end. Near the end f is tiny: the library works in float64 and rounds once.

    ValueError for another name.

    Source: Ho et al. 2020 (arXiv 2006.11239), section 4; Nichol and Dhariwal 2021 (arXiv
    2102.09672), equation 17; DDPMScheduler.__init__.

    >>> [round(beta, 4) for beta in betas("linear", 4, 0.1, 0.4).tolist()]
    [0.1, 0.2, 0.3, 0.4]
    >>> [round(beta, 4) for beta in betas("scaled_linear", 4, 0.01, 0.16).tolist()]
    [0.01, 0.04, 0.09, 0.16]
    >>> [round(beta, 4) for beta in betas("squaredcos_cap_v2", 4, 0.1, 0.4).tolist()]
    [0.153, 0.417, 0.7079, 0.999]
    """
    raise NotImplementedError("TODO 1.1: betas")


def alphas_cumprod(betas: Tensor) -> Tensor:
    """1.2 · ᾱ: how much of the variance is still signal after each step.

    betas: float32 (T,). Returns float32 (T,), descending: ᾱ_t = (1 − β_0)·(1 − β_1) ··· (1 − β_t).

    Source: Ho et al. 2020 (arXiv 2006.11239), equation 4; DDPMScheduler.alphas_cumprod.

    >>> alphas_cumprod(torch.tensor([0.5, 0.25, 0.5])).tolist()
    [0.5, 0.375, 0.1875]
    """
    raise NotImplementedError("TODO 1.2: alphas_cumprod")


def add_noise(original: Tensor, noise: Tensor, timesteps: Tensor, alphas_cumprod: Tensor) -> Tensor:
    """1.3 · The noisy sample of step t, in one jump: signal and noise, mixed as ᾱ_t says.

    original, noise: (B, …) of one shape and dtype: vectors (B, D), images (B, C, H, W), video
    (B, C, F, H, W). timesteps: int64 (B,), one a sample. alphas_cumprod: float32 (T,), always.
    Returns the shape and the dtype of `original`, which may be float32, float16 or bfloat16.

    In half precision the two factors are still worked out in float32: near t = 0 half precision
    cannot hold the difference between ᾱ_t and 1, and the noise would be lost.

    ValueError when any timestep is below 0 or not below T (negative indices would wrap around).

    Read: handbook/process.md, "The forward process".
    Source: Ho et al. 2020 (arXiv 2006.11239), equation 4; DDPMScheduler.add_noise in float32.

    >>> x0, noise = torch.full((2, 1), 10.0), torch.ones(2, 1)
    >>> x = add_noise(x0, noise, torch.tensor([0, 1]), torch.tensor([0.64, 0.36]))
    >>> [round(value, 4) for value in x.flatten().tolist()]
    [8.6, 6.8]
    >>> x0, noise = torch.zeros(1, 1).bfloat16(), torch.ones(1, 1).bfloat16()
    >>> round(add_noise(x0, noise, torch.tensor([0]), torch.tensor([0.9991])).item(), 3)
    0.03
    """
    raise NotImplementedError("TODO 1.3: add_noise")


def velocity(original: Tensor, noise: Tensor, timesteps: Tensor, alphas_cumprod: Tensor) -> Tensor:
    """1.4 · The v target: the direction in which x_t moves along its circle from data to noise.

    Arguments and result as in 1.3; every timestep lies in the table. The dtype is that of
    `original`, and here too the factors are worked out in float32.

    Read: handbook/objective.md, "v prediction".
    Source: Salimans and Ho 2022 (arXiv 2202.00512), section 4; DDPMScheduler.get_velocity in
    float32.

    >>> x0, noise = torch.full((2, 1), 10.0), torch.ones(2, 1)
    >>> v = velocity(x0, noise, torch.tensor([0, 1]), torch.tensor([0.64, 0.36]))
    >>> [round(value, 4) for value in v.flatten().tolist()]
    [-5.2, -7.4]
    """
    raise NotImplementedError("TODO 1.4: velocity")


def snr(timesteps: Tensor, alphas_cumprod: Tensor) -> Tensor:
    """1.5 · The signal-to-noise ratio of each timestep: a ratio of variances, not of amplitudes.

    timesteps: int64 (B,), inside the table. alphas_cumprod: float32 (T,). Returns float32 (B,).

    Read: handbook/objective.md, "Signal-to-noise ratio".
    Source: Kingma et al. 2021 (arXiv 2107.00630), equation 2; compute_snr in
    diffusers.training_utils, which min-SNR weighting (arXiv 2303.09556) uses.

    >>> snr(torch.tensor([1, 0, 2]), torch.tensor([0.75, 0.5, 0.2])).tolist()
    [1.0, 3.0, 0.25]
    """
    raise NotImplementedError("TODO 1.5: snr")


def zero_terminal_snr(betas: Tensor) -> Tensor:
    """1.6 · The schedule changed so that its last step leaves no signal at all.

    betas: float32 (T,). Returns float32 (T,): with r_t = √ᾱ_t, shift the r so that the last one is
    0, stretch them so that the first one is what it was, square them back to ᾱ, and take the β
    that make this ᾱ. The first β stays and the last β becomes 1.

    Source: Lin et al. 2023 (arXiv 2305.08891), algorithm 1; rescale_zero_terminal_snr.

    >>> changed = zero_terminal_snr(torch.tensor([0.19, 5 / 9, 0.75]))  # √ᾱ: .9, .6, .3
    >>> [round(beta, 4) for beta in changed.tolist()]  # √ᾱ: .9, .45, 0
    [0.19, 0.75, 1.0]
    """
    raise NotImplementedError("TODO 1.6: zero_terminal_snr")


def flow_noise(original: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """1.7 · The noisy sample of flow matching: a place on the straight line from x0 to ε.

    original, noise: (B, …) of one shape and dtype. sigmas: float32 (B,), from 0 (data) to 1
    (noise), one a sample. Returns the shape and the dtype of `original`. In half precision 1 − σ is
    still worked out in float32: close to σ = 1 the last trace of x0 would be lost otherwise.

    Read: handbook/objective.md, "Flow".
    Source: Lipman et al. 2023 (arXiv 2210.02747), the optimal transport path;
    FlowMatchEulerDiscreteScheduler.scale_noise in float32.

    >>> x0, noise = torch.full((2, 1), 10.0), torch.full((2, 1), 2.0)
    >>> flow_noise(x0, noise, torch.tensor([0.25, 1.0])).flatten().tolist()
    [8.0, 2.0]
    """
    raise NotImplementedError("TODO 1.7: flow_noise")


def training_target(
    original: Tensor,
    noise: Tensor,
    timesteps: Tensor,
    alphas_cumprod: Tensor,
    prediction_type: str,
) -> Tensor:
    """1.8 · What the network is asked for, given x_t and t.

    Arguments as in 1.3, every timestep in the table. Returns the shape and dtype of `original`:

    * "epsilon": the noise ε.
    * "sample": the clean sample x0.
    * "v_prediction": v, as in 1.4, with the same care in half precision.

    ValueError for another prediction_type.

    Source: diffusers' training scripts; `prediction_type` of DDPMScheduler.

    >>> x0, noise = torch.full((1, 1), 10.0), torch.ones(1, 1)
    >>> t, table = torch.tensor([0]), torch.tensor([0.64])
    >>> training_target(x0, noise, t, table, "epsilon").item()
    1.0
    >>> training_target(x0, noise, t, table, "sample").item()
    10.0
    >>> round(training_target(x0, noise, t, table, "v_prediction").item(), 4)
    -5.2
    """
    raise NotImplementedError("TODO 1.8: training_target")
