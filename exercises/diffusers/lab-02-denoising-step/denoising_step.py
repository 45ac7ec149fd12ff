"""Lab 02 · Denoising step: one reverse update is a prediction and a little arithmetic.

Goal: see who does what in one step of sampling. The network looks at the noisy sample and predicts
*something*: the noise, the clean sample, or a mixture. The scheduler owns the rest: it turns the
prediction into a guess of the clean sample, and mixes guess and noise anew for a lower noise level.
One step is not the generator, and what comes out is a less noisy latent, not pixels.

Symbols: x = the noisy sample, ε = noise, x0 = the clean sample, v = √ᾱ·ε − √(1 − ᾱ)·x0;
ᾱ = alphas_cumprod at the timestep t, ᾱ_prev = the same at prev_t, where the step goes;
z = fresh standard normal noise, T = num_train_timesteps. Always x = √ᾱ·x0 + √(1 − ᾱ)·ε.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

import torch
from torch import Tensor


def predict_original(
    model_output: Tensor, sample: Tensor, alpha_bar: Tensor, prediction_type: str
) -> Tensor:
    """2.1 · The clean sample that a prediction implies: a guess of x0.

    model_output and sample: one shape, e.g. (B, C, H, W). alpha_bar: a 0-d float32 tensor, > 0.
    Returns the same shape and dtype. By prediction_type, model_output is

    * "epsilon": the noise ε that is in x
    * "sample": x0 itself
    * "v_prediction": v

    Nothing is clipped. ValueError for any other prediction_type.

    Read: handbook/process.md, "What the network is asked for".
    Source: Ho et al. 2020 (DDPM, arXiv 2006.11239), equation 15; Salimans and Ho 2022
    (arXiv 2202.00512), appendix D, for v; DDIMScheduler.step(...).pred_original_sample.

    >>> x, output, alpha_bar = torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor(0.64)
    >>> [round(predict_original(output, x, alpha_bar, kind).item(), 3)
    ...  for kind in ("epsilon", "sample", "v_prediction")]
    [0.875, 0.5, 0.5]
    """
    raise NotImplementedError("TODO 2.1: predict_original")


def predict_epsilon(
    model_output: Tensor, sample: Tensor, alpha_bar: Tensor, prediction_type: str
) -> Tensor:
    """2.2 · The noise that a prediction implies: the other half of the sample.

    Arguments and result as in 2.1. By prediction_type, model_output is

    * "epsilon": ε itself
    * "sample": x0
    * "v_prediction": v

    Together with 2.1 it gives the sample back: √ᾱ·x0 + √(1 − ᾱ)·ε = x, whatever was predicted.
    ValueError for any other prediction_type.

    Read: handbook/process.md, "What the network is asked for".
    Source: Salimans and Ho 2022 (arXiv 2202.00512), section 4 and appendix D; `pred_epsilon` in
    DDIMScheduler.step.

    >>> x, output, alpha_bar = torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor(0.64)
    >>> [round(predict_epsilon(output, x, alpha_bar, kind).item(), 3)
    ...  for kind in ("epsilon", "sample", "v_prediction")]
    [0.5, 1.0, 1.0]
    """
    raise NotImplementedError("TODO 2.2: predict_epsilon")


def ddim_step(
    model_output: Tensor,
    sample: Tensor,
    alpha_bar: Tensor,
    alpha_bar_prev: Tensor,
    prediction_type: str,
    eta: float,
    noise: Tensor | None,
) -> Tensor:
    """2.3 · One DDIM step: the sample at the lower noise level of alpha_bar_prev.

    alpha_bar ≤ alpha_bar_prev ≤ 1, both 0-d float32 tensors, > 0. 0 ≤ eta ≤ 1: how much
    of DDPM's randomness. noise: z, of the sample's shape; it may be None when eta is 0. Returns the
    sample's shape and dtype. x0 and ε are those of 2.1 and 2.2, and nothing is clipped.

    The result has the signal's weight and the noise's variance of the level alpha_bar_prev; part of
    that variance is fresh noise, η² times as much as DDPM's posterior has. At the end of a run
    alpha_bar_prev is 1, and x_prev is x0.

    Read: handbook/process.md, "The reverse process".
    Source: Song et al. 2021 (DDIM, arXiv 2010.02502), equations 12 and 16; DDIMScheduler.step with
    clip_sample=False and variance_noise=noise.

    >>> x, output = torch.tensor([1.0]), torch.tensor([0.5])
    >>> a, a_prev, z = torch.tensor(0.64), torch.tensor(0.8), torch.tensor([1.0])
    >>> round(ddim_step(output, x, a, a_prev, "epsilon", 0.0, None).item(), 4)
    1.0062
    >>> round(ddim_step(output, x, a, a_prev, "epsilon", 1.0, z).item(), 4)
    1.265
    """
    raise NotImplementedError("TODO 2.3: ddim_step")


def ddpm_step(
    model_output: Tensor,
    sample: Tensor,
    t: int,
    prev_t: int,
    alphas_cumprod: Tensor,
    prediction_type: str,
    variance_type: str,
    noise: Tensor,
) -> Tensor:
    """2.4 · One DDPM step, from timestep t to prev_t: posterior mean plus fresh noise.

    t > prev_t, and prev_t need not be t − 1. prev_t = −1 is the end of the run: ᾱ_prev = 1 and
    **no noise is added**, whatever t is. alphas_cumprod: float32 (T,). noise: z, of the sample's
    shape. Returns the sample's shape and dtype. x0 is that of 2.1 and is not clipped.

    The mean is that of the posterior of x_prev, given x and x0. The variance is the posterior's
    ("fixed_small") or β ("fixed_large"), where β belongs to the whole jump from prev_t to t.

    Read: handbook/process.md, "Where DDPM's weights come from".
    Source: Ho et al. 2020 (DDPM, arXiv 2006.11239), equations 7 and 11 and section 3.2;
    DDPMScheduler.step with clip_sample=False.

    >>> x, output, z = torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([1.0])
    >>> table = torch.tensor([0.9, 0.8, 0.64])
    >>> [round(ddpm_step(output, x, 2, 1, table, "epsilon", kind, z).item(), 4)
    ...  for kind in ("fixed_small", "fixed_large")]
    [1.265, 1.3789]
    >>> round(ddpm_step(output, x, 2, -1, table, "epsilon", "fixed_large", z).item(), 4)
    0.875
    """
    raise NotImplementedError("TODO 2.4: ddpm_step")


def previous_alpha_bar(alphas_cumprod: Tensor, prev_t: int, set_alpha_to_one: bool) -> Tensor:
    """2.5 · ᾱ of the level that a step goes to, also when that level lies before the schedule.

    alphas_cumprod: float32 (T,). Returns a 0-d float32 tensor: alphas_cumprod[prev_t] for
    prev_t ≥ 0. A negative prev_t means "cleaner than timestep 0", however negative it is: then 1
    with set_alpha_to_one, and alphas_cumprod[0] without.

    Source: `final_alpha_cumprod` in DDIMScheduler.

    >>> table = torch.tensor([0.75, 0.5, 0.25])
    >>> previous_alpha_bar(table, 1, True).item()
    0.5
    >>> previous_alpha_bar(table, -2, True).item(), previous_alpha_bar(table, -2, False).item()
    (1.0, 0.75)
    """
    raise NotImplementedError("TODO 2.5: previous_alpha_bar")


def clip_prediction(x0: Tensor, clip_range: float) -> Tensor:
    """2.6 · The guess of x0 with every value brought into [−clip_range, clip_range].

    Any shape; returns the same shape and dtype. For models of pixels, whose x0 is known to lie in
    [−1, 1]. Latents have no such bound: there this would cut the picture off.

    Source: DDIMScheduler with clip_sample and clip_sample_range.

    >>> clip_prediction(torch.tensor([-3.0, 0.5, 1.75]), 1.5).tolist()
    [-1.5, 0.5, 1.5]
    """
    raise NotImplementedError("TODO 2.6: clip_prediction")


def dynamic_threshold(x0: Tensor, ratio: float, max_value: float) -> Tensor:
    """2.6 · Clipping to a bound that each sample of the batch sets itself, then rescaling to 1.

    x0: (B, …), at least one axis after the batch: (B, C, H, W) images, (B, C, F, H, W) video.
    For each sample s = the `ratio` quantile of |x0| over all its values (linear interpolation, as
    torch.quantile has it), clamped to [1, max_value]. The result is x0 clamped to [−s, s], divided
    by s, so it lies in [−1, 1]; where s is 1 this is plain clipping. max_value ≥ 1.

    Returns x0's shape and dtype. float16 and bfloat16 are computed in float32 inside.

    Source: Saharia et al. 2022 (Imagen, arXiv 2205.11487), section 2.3; `_threshold_sample` of
    DDIMScheduler and DDPMScheduler.

    >>> pixels = torch.tensor([[0.0, 1.0, 2.0, -4.0, 3.0], [0.1, 0.2, 0.3, -0.4, 0.5]])
    >>> dynamic_threshold(pixels[:1], 0.5, 9.0).tolist()
    [[0.0, 0.5, 1.0, -1.0, 1.0]]
    >>> torch.equal(dynamic_threshold(pixels, 0.5, 9.0)[1], pixels[1])
    True
    """
    raise NotImplementedError("TODO 2.6: dynamic_threshold")


def learned_variance(
    model_output: Tensor, t: int, prev_t: int, alphas_cumprod: Tensor
) -> tuple[Tensor, Tensor]:
    """2.7 · What a network with twice the channels says: (ε, variance).

    model_output: (B, 2C, H, W). The first C channels are ε; the others are r, meant to lie in
    [−1, 1]: where the variance lies between the two fixed ones of 2.4, on a logarithmic scale.
    t > prev_t ≥ 0; alphas_cumprod: float32 (T,). Returns two tensors (B, C, H, W):

    * share = (r + 1) / 2: 0 is fixed_small, 1 is fixed_large
    * variance = exp(share·log(fixed_large) + (1 − share)·log(fixed_small))

    The variance itself, neither its logarithm nor its root.

    Source: Nichol and Dhariwal 2021 (arXiv 2102.09672), equation 15; DDPMScheduler with
    variance_type "learned_range".

    >>> output = torch.tensor([0.3, -1.0]).reshape(1, 2, 1, 1)
    >>> table = torch.tensor([0.9, 0.8, 0.64])
    >>> [round(part.item(), 4) for part in learned_variance(output, 2, 0, table)]
    [0.3, 0.0802]
    >>> [round(part.item(), 4) for part in learned_variance(-output, 2, 0, table)]
    [-0.3, 0.2889]
    """
    raise NotImplementedError("TODO 2.7: learned_variance")
