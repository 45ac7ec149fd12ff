"""Lab 02: wrong answers that people really give, the shortest wrong code beside its sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/process.md"
TARGETS = f"{PAGE}#what-the-network-is-asked-for"
REVERSE = f"{PAGE}#the-reverse-process"
LAST_STEP = CLIPPING = LEARNED = REVERSE


def weights(a: Tensor) -> tuple[Tensor, Tensor]:
    return a**0.5, (1 - a) ** 0.5


def known(kind: str) -> str:
    if kind not in ("epsilon", "sample", "v_prediction"):
        raise ValueError(kind)
    return kind


def clean_of(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    c, s = weights(a)
    return {"epsilon": (x - s * y) / c, "sample": y, "v_prediction": c * x - s * y}[known(kind)]


def noise_of(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    c, s = weights(a)
    return {"epsilon": y, "sample": (x - c * y) / s, "v_prediction": c * y + s * x}[known(kind)]


# 2.1


@misconception("2.1", "velocity-read-as-noise", replaces="predict_original", reads=TARGETS)
def velocity_as_noise(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """A v prediction was used as if it were ε. The tensor looks the same; only prediction_type says
    what it means. For v: x0 = √ᾱ·x − √(1−ᾱ)·v."""
    return clean_of(y, x, a, "epsilon" if kind == "v_prediction" else kind)


@misconception("2.1", "clean-sample-read-as-noise", replaces="predict_original", reads=TARGETS)
def clean_as_noise(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """With prediction_type "sample" the network has answered x0 already. There is nothing to take
    away from it."""
    return clean_of(y, x, a, "epsilon" if kind == "sample" else kind)


@misconception("2.1", "noise-read-as-clean-sample", replaces="predict_original", reads=TARGETS)
def noise_as_clean(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The prediction was returned as it came. An ε model says what is too much, not what is
    underneath: take it out of x, at its weight."""
    return y if kind == "epsilon" else clean_of(y, x, a, kind)


@misconception("2.1", "guess-without-roots", replaces="predict_original", reads=TARGETS)
def without_roots(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """ᾱ and 1 − ᾱ are variances. Samples are weighted by their roots, √ᾱ and √(1−ᾱ)."""
    return (x - (1 - a) * y) / a if kind == "epsilon" else clean_of(y, x, a, kind)


@misconception("2.1", "noise-weight-without-root", replaces="predict_original", reads=TARGETS)
def noise_weight_unrooted(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The noise was weighted by 1 − ᾱ, its variance. Its weight is the root, √(1−ᾱ)."""
    c, s = a**0.5, 1 - a
    return {"epsilon": (x - s * y) / c, "sample": y, "v_prediction": c * x - s * y}[known(kind)]


@misconception("2.1", "guess-not-divided", replaces="predict_original", reads=TARGETS)
def not_divided(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The noise is out, but what is left is √ᾱ·x0. Divide by √ᾱ to have x0."""
    return x - weights(a)[1] * y if kind == "epsilon" else clean_of(y, x, a, kind)


@misconception("2.1", "weights-swapped", replaces="predict_original", reads=TARGETS)
def weights_swapped(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The two weights are swapped. √ᾱ belongs to the signal, √(1−ᾱ) to the noise."""
    return clean_of(y, x, 1 - a, kind)


@misconception("2.1", "velocity-sign", replaces="predict_original", reads=TARGETS)
def velocity_sign(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The sign of v is wrong. v = √ᾱ·ε − √(1−ᾱ)·x0 points away from x0, so it is subtracted."""
    return clean_of(-y if kind == "v_prediction" else y, x, a, kind)


@misconception("2.1", "velocity-roles-swapped", replaces="predict_original", reads=TARGETS)
def velocity_roles(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """x and v have changed places. x carries the weight √ᾱ here, v the weight √(1−ᾱ)."""
    return clean_of(x, y, a, kind) if kind == "v_prediction" else clean_of(y, x, a, kind)


@misconception("2.1", "guess-clipped", replaces="predict_original", reads=CLIPPING)
def guess_clipped(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The guess was clipped to [−1, 1]. That is right for pixels and wrong for latents, which have
    no such bound; Stable Diffusion's schedulers have clip_sample False."""
    return clean_of(y, x, a, kind).clip(-1, 1)


@misconception("2.1", "anything-else-is-noise", replaces="predict_original", reads=TARGETS)
def any_is_noise(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """An unknown prediction_type was read as one of the three. Raise ValueError: a wrong reading of
    the tensor fails in silence later."""
    return clean_of(y, x, a, kind if kind in ("sample", "v_prediction") else "epsilon")


@misconception("2.1", "anything-else-is-velocity", replaces="predict_original", reads=TARGETS)
def any_is_velocity(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """An unknown prediction_type was read as v_prediction, by an `else` that takes all the rest.
    Raise ValueError there."""
    return clean_of(y, x, a, kind if kind in ("sample", "epsilon") else "v_prediction")


# 2.2


@misconception("2.2", "clean-sample-read-as-noise", replaces="predict_epsilon", reads=TARGETS)
def clean_is_noise(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """With prediction_type "sample" the output is x0, not ε. The noise is what x holds beside it:
    (x − √ᾱ·x0) / √(1−ᾱ)."""
    return y if kind == "sample" else noise_of(y, x, a, kind)


@misconception("2.2", "velocity-read-as-noise", replaces="predict_epsilon", reads=TARGETS)
def velocity_is_noise(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """v was returned as if it were ε. Turn it back: ε = √ᾱ·v + √(1−ᾱ)·x."""
    return y if kind == "v_prediction" else noise_of(y, x, a, kind)


@misconception("2.2", "noise-not-divided", replaces="predict_epsilon", reads=TARGETS)
def noise_not_divided(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The signal is out, but what is left is √(1−ᾱ)·ε. Divide by √(1−ᾱ) to have ε."""
    return x - weights(a)[0] * y if kind == "sample" else noise_of(y, x, a, kind)


@misconception("2.2", "noise-without-roots", replaces="predict_epsilon", reads=TARGETS)
def noise_without_roots(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """ᾱ and 1 − ᾱ are variances. Weigh the two parts by their roots."""
    return (x - a * y) / (1 - a) if kind == "sample" else noise_of(y, x, a, kind)


@misconception("2.2", "noise-weight-without-root", replaces="predict_epsilon", reads=TARGETS)
def weight_unrooted(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """1 − ᾱ was used as the weight of the noise. That is its variance; the weight is √(1−ᾱ)."""
    c, s = a**0.5, 1 - a
    return {"epsilon": y, "sample": (x - c * y) / s, "v_prediction": c * y + s * x}[known(kind)]


@misconception("2.2", "noise-weights-swapped", replaces="predict_epsilon", reads=TARGETS)
def noise_weights_swapped(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """The two weights are swapped. √ᾱ belongs to the signal, √(1−ᾱ) to the noise."""
    return noise_of(y, x, 1 - a, kind)


@misconception("2.2", "guess-for-noise", replaces="predict_epsilon", reads=TARGETS)
def guess_for_noise(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """For a v prediction this is x0, the answer of 2.1. The noise lies at a right angle to it:
    ε = √ᾱ·v + √(1−ᾱ)·x."""
    return (clean_of if kind == "v_prediction" else noise_of)(y, x, a, kind)


@misconception("2.2", "noise-sign-of-velocity", replaces="predict_epsilon", reads=TARGETS)
def noise_sign(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """A sign is wrong. x and v both hold noise at a positive weight, so both parts are added:
    ε = √ᾱ·v + √(1−ᾱ)·x."""
    return noise_of(y, -x if kind == "v_prediction" else x, a, kind)


@misconception("2.2", "anything-else-is-noise", replaces="predict_epsilon", reads=TARGETS)
def other_is_noise(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """An unknown prediction_type was read as ε. Raise ValueError: nothing in the tensor says what
    it means."""
    return noise_of(y, x, a, kind if kind in ("sample", "v_prediction") else "epsilon")


@misconception("2.2", "anything-else-is-velocity", replaces="predict_epsilon", reads=TARGETS)
def other_is_velocity(y: Tensor, x: Tensor, a: Tensor, kind: str) -> Tensor:
    """An unknown prediction_type was read as v_prediction, by an `else` that takes all the rest.
    Raise ValueError there."""
    return noise_of(y, x, a, kind if kind in ("sample", "epsilon") else "v_prediction")


# 2.3


def exchanged(a: Tensor, p: Tensor) -> Tensor:
    """The variance of the noise that eta 1 exchanges."""
    return (1 - p) * (1 - a / p) / (1 - a)


def mixed(x0: Tensor, e: Tensor, p: Tensor, sigma: Tensor, z: Tensor | None) -> Tensor:
    x = p**0.5 * x0 + (1 - p - sigma * sigma) ** 0.5 * e
    return x if z is None else x + sigma * z


@misconception("2.3", "output-used-as-direction", replaces="ddim_step", reads=REVERSE)
def output_as_direction(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """The network's output itself was re-used as the noise. Only an ε model's output is noise; for
    the others take the ε of 2.2."""
    return mixed(clean_of(y, x, a, kind), y, p, eta * exchanged(a, p) ** 0.5, z)


@misconception("2.3", "velocity-read-as-noise", replaces="ddim_step", reads=TARGETS)
def velocity_step(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """The whole step read v as ε. prediction_type decides both the guess of x0 and the noise."""
    kind = "epsilon" if kind == "v_prediction" else kind
    sigma = eta * exchanged(a, p) ** 0.5
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, sigma, z)


@misconception("2.3", "sigma-from-one-level", replaces="ddim_step", reads=REVERSE)
def sigma_one_level(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """σ² was taken as η²·(1−ᾱ). It depends on both levels:
    η²·(1−ᾱ_prev)/(1−ᾱ)·(1−ᾱ/ᾱ_prev)."""
    sigma = eta * (1 - a) ** 0.5
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, sigma, z)


@misconception("2.3", "sigma-without-ratio", replaces="ddim_step", reads=REVERSE)
def sigma_no_ratio(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """σ² was taken as η²·(1−ᾱ/ᾱ_prev), the β of the step. The factor (1−ᾱ_prev)/(1−ᾱ) is
    missing."""
    sigma = eta * (1 - a / p) ** 0.5
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, sigma, z)


@misconception("2.3", "eta-under-the-root", replaces="ddim_step", reads=REVERSE)
def eta_under_root(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """η came under the root. It scales the standard deviation σ, so the variance has η²."""
    sigma = (eta * exchanged(a, p)) ** 0.5
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, sigma, z)


@misconception("2.3", "eta-ignored", replaces="ddim_step", reads=REVERSE)
def eta_ignored(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """η is ignored: this is always the step without randomness."""
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, 0 * a, None)


@misconception("2.3", "always-fully-random", replaces="ddim_step", reads=REVERSE)
def eta_always_one(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """Noise is added as with η = 1 whenever there is some. η scales it, and η = 0 adds none."""
    sigma = exchanged(a, p) ** 0.5 * (z is not None)
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, sigma, z)


@misconception("2.3", "noise-on-top", replaces="ddim_step", reads=REVERSE)
def noise_on_top(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """Fresh noise came on top of all of the old. The old must give way, from √(1−ᾱ_prev) to
    √(1−ᾱ_prev−σ²), or the sample is noisier than its level says."""
    step = mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, 0 * a, None)
    return step if z is None else step + eta * exchanged(a, p) ** 0.5 * z


@misconception("2.3", "deviations-subtracted", replaces="ddim_step", reads=REVERSE)
def deviations_subtracted(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """The weight of the old noise was taken as √(1−ᾱ_prev) − σ. Standard deviations do not
    subtract; variances do: √(1−ᾱ_prev−σ²)."""
    sigma = eta * exchanged(a, p) ** 0.5
    step = p**0.5 * clean_of(y, x, a, kind)
    step = step + ((1 - p) ** 0.5 - sigma) * noise_of(y, x, a, kind)
    return step if z is None else step + sigma * z


@misconception("2.3", "deviation-for-variance", replaces="ddim_step", reads=REVERSE)
def sigma_not_squared(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """σ was taken from 1 − ᾱ_prev. Under the root stand variances: it is σ² that gives way."""
    sigma = eta * exchanged(a, p) ** 0.5
    step = p**0.5 * clean_of(y, x, a, kind)
    step = step + (1 - p - sigma) ** 0.5 * noise_of(y, x, a, kind)
    return step if z is None else step + sigma * z


@misconception("2.3", "noise-not-rooted", replaces="ddim_step", reads=REVERSE)
def noise_not_rooted(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """The fresh noise was multiplied by σ², a variance. Multiply it by σ."""
    sigma = eta * exchanged(a, p) ** 0.5
    z = None if z is None else sigma * z
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, sigma, z)


@misconception("2.3", "predicted-noise-as-fresh", replaces="ddim_step", reads=REVERSE)
def predicted_as_fresh(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """σ was multiplied by the predicted noise. What is added must be fresh: `noise`."""
    e = noise_of(y, x, a, kind)
    return mixed(clean_of(y, x, a, kind), e, p, eta * exchanged(a, p) ** 0.5, e)


@misconception("2.3", "noise-at-the-old-level", replaces="ddim_step", reads=REVERSE)
def old_level(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """The old noise kept the weight of the level it came from. The sample is built for the level it
    goes to: √(1−ᾱ_prev−σ²)."""
    sigma = eta * exchanged(a, p) ** 0.5
    step = p**0.5 * clean_of(y, x, a, kind)
    step = step + (1 - a - sigma**2) ** 0.5 * noise_of(y, x, a, kind)
    return step if z is None else step + sigma * z


@misconception("2.3", "latents-clipped", replaces="ddim_step", reads=CLIPPING)
def clipped(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """The guess of x0 was clipped to [−1, 1], as DDIMScheduler does by default. Latents are larger
    than that; for them clip_sample is False."""
    x0 = clean_of(y, x, a, kind).clip(-1, 1)
    return mixed(x0, noise_of(y, x, a, kind), p, eta * exchanged(a, p) ** 0.5, z)


@misconception("2.3", "latents-clipped-and-noise-again", replaces="ddim_step", reads=CLIPPING)
def clipped_again(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor | None
) -> Tensor:
    """The guess of x0 was clipped to [−1, 1] and the noise worked out from that. Latents are not
    bounded: nothing is clipped in this step."""
    x0 = clean_of(y, x, a, kind).clip(-1, 1)
    return mixed(x0, noise_of(x0, x, a, "sample"), p, eta * exchanged(a, p) ** 0.5, z)


@misconception("2.3", "noise-always-needed", replaces="ddim_step", reads=REVERSE)
def always_needed(
    y: Tensor, x: Tensor, a: Tensor, p: Tensor, kind: str, eta: float, z: Tensor
) -> Tensor:
    """σ·noise was added without asking whether there is noise. With η = 0 it may be None."""
    sigma = eta * exchanged(a, p) ** 0.5
    return mixed(clean_of(y, x, a, kind), noise_of(y, x, a, kind), p, sigma, None) + sigma * z


# 2.4


def level(table: Tensor, t: int) -> Tensor:
    return table[t] if t >= 0 else torch.tensor(1.0)


def mean_of(x0: Tensor, x: Tensor, a: Tensor, p: Tensor, beta: Tensor) -> Tensor:
    return (p**0.5 * beta * x0 + (1 - beta) ** 0.5 * (1 - p) * x) / (1 - a)


def spread(a: Tensor, p: Tensor, beta: Tensor, kind: str) -> Tensor:
    return (beta if kind == "fixed_large" else beta * (1 - p) / (1 - a)) ** 0.5


def plain(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The compact twin that the wrong ones below differ from in one place."""
    a, p = table[t], level(table, s)
    beta = 1 - a / p
    mean = mean_of(clean_of(y, x, a, kind), x, a, p, beta)
    return mean + spread(a, p, beta, variance) * z if s >= 0 else mean


@misconception("2.4", "beta-of-the-training-step", replaces="ddpm_step", reads=REVERSE)
def training_beta(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """β of a single training step was used, but this step skips some. Take it from both ends of the
    jump: β = 1 − ᾱ/ᾱ_prev."""
    a, p = table[t], level(table, s)
    beta = 1 - a / level(table, t - 1)
    mean = mean_of(clean_of(y, x, a, kind), x, a, p, beta)
    return mean + spread(a, p, beta, variance) * z if s >= 0 else mean


@misconception("2.4", "neighbour-for-the-previous-step", replaces="ddpm_step", reads=REVERSE)
def neighbour(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """ᾱ_prev was read at t − 1. A run skips timesteps: the level that this step goes to is that of
    prev_t."""
    return plain(y, x, t, t - 1 if s >= 0 else s, table, kind, variance, z)


@misconception("2.4", "posterior-ratio-inverted", replaces="ddpm_step", reads=REVERSE)
def ratio_inverted(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The ratio in the posterior variance is upside down. (1−ᾱ_prev)/(1−ᾱ) makes it smaller than
    β: part of the noise is known already."""
    a, p = table[t], level(table, s)
    beta = 1 - a / p
    small = beta * (1 - a) / (1 - p) if s >= 0 else beta
    mean = mean_of(clean_of(y, x, a, kind), x, a, p, beta)
    noise = (beta if variance == "fixed_large" else small) ** 0.5 * z
    return mean + noise if s >= 0 else mean


@misconception("2.4", "posterior-denominator-cancels", replaces="ddpm_step", reads=REVERSE)
def denominator_cancels(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The posterior variance lacks its denominator: (1−ᾱ_prev)·β still has to be divided by 1−ᾱ."""
    a, p = table[t], level(table, s)
    beta = 1 - a / p
    mean = mean_of(clean_of(y, x, a, kind), x, a, p, beta)
    noise = (beta if variance == "fixed_large" else (1 - p) * beta) ** 0.5 * z
    return mean + noise if s >= 0 else mean


@misconception("2.4", "beta-for-posterior-variance", replaces="ddpm_step", reads=REVERSE)
def always_large(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The variance is always β. With fixed_small, the library's default, it is the posterior
    variance (1−ᾱ_prev)/(1−ᾱ)·β."""
    return plain(y, x, t, s, table, kind, "fixed_large", z)


@misconception("2.4", "variance-type-ignored", replaces="ddpm_step", reads=REVERSE)
def always_small(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """variance_type is ignored. With fixed_large the variance is β itself."""
    return plain(y, x, t, s, table, kind, "fixed_small", z)


@misconception("2.4", "noise-while-t-is-positive", replaces="ddpm_step", reads=REVERSE)
def noise_by_t(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """Noise was added because t is above 0. The last step of a run can start anywhere; what makes
    it the last is prev_t −1. (DDPMScheduler asks for t too, and leaves noise on such a sample.)"""
    a, p = table[t], level(table, s)
    mean = mean_of(clean_of(y, x, a, kind), x, a, p, 1 - a / p)
    return mean + spread(a, p, 1 - a / p, variance) * z if t > 0 else mean


@misconception("2.4", "noise-at-the-end", replaces="ddpm_step", reads=REVERSE)
def noise_at_the_end(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The last step adds noise too, and nothing comes after it to take it away. With prev_t −1 the
    result is the mean."""
    a, p = table[t], level(table, s)
    mean = mean_of(clean_of(y, x, a, kind), x, a, p, 1 - a / p)
    return mean + spread(a, p, 1 - a / p, variance) * z


@misconception("2.4", "negative-index-wraps", replaces="ddpm_step", reads=LAST_STEP)
def end_wraps(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """alphas_cumprod[−1] is the *noisiest* level: Python counts from the end. With prev_t −1 the
    level to go to is 1."""
    a, p = table[t], table[s]
    mean = mean_of(clean_of(y, x, a, kind), x, a, p, 1 - a / p)
    return mean if s < 0 else mean + spread(a, p, 1 - a / p, variance) * z


@misconception("2.4", "variance-not-rooted", replaces="ddpm_step", reads=REVERSE)
def not_rooted(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """Noise was multiplied by the variance. Multiply it by the standard deviation, the root."""
    a, p = table[t], level(table, s)
    return plain(y, x, t, s, table, kind, variance, spread(a, p, 1 - a / p, variance) * z)


@misconception("2.4", "predicted-noise-as-fresh", replaces="ddpm_step", reads=REVERSE)
def predicted_again(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The predicted noise was put back in. What is added must be fresh: `noise`."""
    return plain(y, x, t, s, table, kind, variance, noise_of(y, x, table[t], kind))


@misconception("2.4", "output-as-fresh-noise", replaces="ddpm_step", reads=REVERSE)
def output_again(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The network's output was added where fresh noise belongs: use `noise`."""
    return plain(y, x, t, s, table, kind, variance, y)


@misconception("2.4", "velocity-read-as-noise", replaces="ddpm_step", reads=TARGETS)
def velocity_in_ddpm(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """v was read as ε. prediction_type decides how the guess of x0 is made."""
    kind = "epsilon" if kind == "v_prediction" else kind
    return plain(y, x, t, s, table, kind, variance, z)


@misconception("2.4", "output-read-as-noise", replaces="ddpm_step", reads=TARGETS)
def always_noise(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """prediction_type is ignored: every output was read as ε."""
    return plain(y, x, t, s, table, "epsilon", variance, z)


@misconception("2.4", "latents-clipped", replaces="ddpm_step", reads=CLIPPING)
def clipped_in_ddpm(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The guess of x0 was clipped to [−1, 1], as DDPMScheduler does by default. Latents are larger
    than that; for them clip_sample is False."""
    x0 = clean_of(y, x, table[t], kind).clip(-1, 1)
    return plain(x0, x, t, s, table, "sample", variance, z)


@misconception("2.4", "mean-weights-swapped", replaces="ddpm_step", reads=REVERSE)
def mean_swapped(
    y: Tensor, x: Tensor, t: int, s: int, table: Tensor, kind: str, variance: str, z: Tensor
) -> Tensor:
    """The weights of x0 and x in the mean are swapped. At the end x0 has all the weight."""
    return plain(x, clean_of(y, x, table[t], kind), t, s, table, "sample", variance, z)


# 2.5


@misconception("2.5", "only-minus-one-is-the-end", replaces="previous_alpha_bar", reads=LAST_STEP)
def only_minus_one(table: Tensor, s: int, to_one: bool) -> Tensor:
    """Only −1 was taken for the end. t minus a stride can be any negative number."""
    return table[s] if s != -1 else (torch.tensor(1.0) if to_one else table[0])


@misconception("2.5", "negative-index-wraps", replaces="previous_alpha_bar", reads=LAST_STEP)
def wraps(table: Tensor, s: int, to_one: bool) -> Tensor:
    """A negative prev_t was used as an index. Python then counts from the end of the table, where
    the noise is: the run would end at almost pure noise."""
    return table[s]


@misconception("2.5", "first-level-for-one", replaces="previous_alpha_bar", reads=LAST_STEP)
def first_for_one(table: Tensor, s: int, to_one: bool) -> Tensor:
    """Before the schedule ᾱ[0] was used. With set_alpha_to_one it is 1, so that the last step lands
    on the guess itself and a trace of noise does not stay."""
    return table[max(s, 0)]


@misconception("2.5", "always-one", replaces="previous_alpha_bar", reads=LAST_STEP)
def always_one(table: Tensor, s: int, to_one: bool) -> Tensor:
    """set_alpha_to_one is ignored. Without it the end of the run is the table's first entry, as
    Stable Diffusion's own configuration has it."""
    return level(table, s)


@misconception("2.5", "timestep-0-is-the-end", replaces="previous_alpha_bar", reads=LAST_STEP)
def zero_is_the_end(table: Tensor, s: int, to_one: bool) -> Tensor:
    """Timestep 0 was taken for the end. It is a level of the table like the others; only negative
    ones lie before the schedule."""
    return table[s] if s > 0 else (torch.tensor(1.0) if to_one else table[0])


# 2.6


def bounds(x: Tensor, ratio: float, dims: int = 1) -> Tensor:
    """The quantile of |x| over all but the first `dims` axes, with the axes kept."""
    flat = x.float().abs().flatten(dims)
    return flat.quantile(ratio, -1).reshape(*x.shape[:dims], *[1] * (x.ndim - dims))


def bounded(x: Tensor, s: Tensor) -> Tensor:
    return (x.float().minimum(s).maximum(-s) / s).to(x.dtype)


@misconception("2.6", "always-clipped-to-one", replaces="clip_prediction", reads=CLIPPING)
def clipped_to_one(x0: Tensor, bound: float) -> Tensor:
    """The bound is always 1. It is an argument, clip_range, and only usually 1."""
    return x0.clip(-1, 1)


@misconception("2.6", "clipped-above-alone", replaces="clip_prediction", reads=CLIPPING)
def clipped_above(x0: Tensor, bound: float) -> Tensor:
    """Only large values were clipped. x0 is bounded on both sides, at −clip_range too."""
    return x0.clip(max=bound)


@misconception("2.6", "clipped-at-zero", replaces="clip_prediction", reads=CLIPPING)
def clipped_at_zero(x0: Tensor, bound: float) -> Tensor:
    """Negative values became 0. A model's pixels run from −1 to 1, black is −1."""
    return x0.clip(0, bound)


@misconception("2.6", "scaled-instead-of-clipped", replaces="clip_prediction", reads=CLIPPING)
def scaled(x0: Tensor, bound: float) -> Tensor:
    """Everything was scaled down until the largest value fitted. Clipping leaves what lies inside
    as it is."""
    return x0 * bound / x0.abs().max()


@misconception("2.6", "not-divided-by-the-bound", replaces="dynamic_threshold", reads=CLIPPING)
def not_divided_by_s(x0: Tensor, ratio: float, most: float) -> Tensor:
    """The clamped guess was not divided by s. Dividing brings it back into [−1, 1], where a picture
    lives."""
    s = bounds(x0, ratio).clip(1, most)
    return (bounded(x0, s).float() * s).to(x0.dtype)


@misconception("2.6", "one-bound-for-the-batch", replaces="dynamic_threshold", reads=CLIPPING)
def for_the_batch(x0: Tensor, ratio: float, most: float) -> Tensor:
    """One quantile was taken over the whole batch. Each sample has its own, else a picture changes
    with its neighbours."""
    return bounded(x0, bounds(x0[None], ratio)[0].clip(1, most))


@misconception("2.6", "bound-a-channel", replaces="dynamic_threshold", reads=CLIPPING)
def for_each_channel(x0: Tensor, ratio: float, most: float) -> Tensor:
    """Each channel got its own bound, which shifts the colours. The quantile is over all values of
    a sample."""
    return bounded(x0, bounds(x0, ratio, 2).clip(1, most))


@misconception("2.6", "pale-samples-stretched", replaces="dynamic_threshold", reads=CLIPPING)
def stretched(x0: Tensor, ratio: float, most: float) -> Tensor:
    """s was allowed below 1, so a pale sample was stretched to full contrast. s is at least 1."""
    return bounded(x0, bounds(x0, ratio).clip(max=most))


@misconception("2.6", "bound-without-limit", replaces="dynamic_threshold", reads=CLIPPING)
def without_limit(x0: Tensor, ratio: float, most: float) -> Tensor:
    """s has no upper limit. It is clamped to [1, max_value]."""
    return bounded(x0, bounds(x0, ratio).clip(1))


@misconception("2.6", "quantile-of-signed-values", replaces="dynamic_threshold", reads=CLIPPING)
def signed(x0: Tensor, ratio: float, most: float) -> Tensor:
    """The quantile was taken of the values with their signs. It is one of |x0|: dark counts as much
    as bright."""
    s = x0.float().flatten(1).quantile(ratio, -1).clip(1, most)
    return bounded(x0, s.reshape(-1, *[1] * (x0.ndim - 1)))


@misconception("2.6", "maximum-for-quantile", replaces="dynamic_threshold", reads=CLIPPING)
def maximum(x0: Tensor, ratio: float, most: float) -> Tensor:
    """The largest value was taken for s. A quantile leaves the few extreme values out."""
    return bounded(x0, bounds(x0, 1.0).clip(1, most))


@misconception("2.6", "plain-clipping", replaces="dynamic_threshold", reads=CLIPPING)
def plain_clipping(x0: Tensor, ratio: float, most: float) -> Tensor:
    """This is plain clipping to [−1, 1]: what dynamic thresholding comes to with max_value 1, the
    library's default. Here s may grow to max_value."""
    return x0.clip(-1, 1)


@misconception("2.6", "bounds-along-the-width", replaces="dynamic_threshold", reads=CLIPPING)
def along_the_width(x0: Tensor, ratio: float, most: float) -> Tensor:
    """s has shape (B,), and broadcasting lays it along the last axis: an error, or in silence the
    wrong axis when B equals the width. Give it shape (B, 1, 1, 1)."""
    s = torch.quantile(x0.float().flatten(1).abs(), ratio, dim=1).clamp(1, most)
    return (torch.clamp(x0.float(), -s, s) / s).to(x0.dtype)


@misconception("2.6", "quantile-in-half", replaces="dynamic_threshold", reads=CLIPPING)
def in_half(x0: Tensor, ratio: float, most: float) -> Tensor:
    """The quantile of a half precision tensor was asked for, which torch refuses. Compute in
    float32 and return x0's dtype."""
    s = torch.quantile(x0.abs().flatten(1), ratio, dim=1).clip(1, most)
    return bounded(x0, s.reshape(-1, *[1] * (x0.ndim - 1)))


@misconception("2.6", "float32-returned", replaces="dynamic_threshold", reads=CLIPPING)
def in_float(x0: Tensor, ratio: float, most: float) -> Tensor:
    """The result stayed in float32. Compute there, but return x0's dtype."""
    return bounded(x0.float(), bounds(x0, ratio).clip(1, most))


# 2.7


def fixed(table: Tensor, t: int, s: int) -> tuple[Tensor, Tensor]:
    """(fixed_small, fixed_large)."""
    beta = 1 - table[t] / table[s]
    return beta * (1 - table[s]) / (1 - table[t]), beta


@misconception("2.7", "noise-not-cut-off", replaces="learned_variance", reads=LEARNED)
def not_cut(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """All 2C channels were returned as the noise. Only the first C are; a step with the rest in it
    does not fit the sample."""
    small, large = fixed(table, t, s)
    return y, small * (large / small) ** ((y.chunk(2, 1)[1] + 1) / 2)


@misconception("2.7", "halves-swapped", replaces="learned_variance", reads=LEARNED)
def halves_swapped(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """The halves are swapped. The noise comes first, as in a network without learned variance."""
    r, e = y.chunk(2, 1)
    small, large = fixed(table, t, s)
    return e, small * (large / small) ** ((r + 1) / 2)


@misconception("2.7", "channels-interleaved", replaces="learned_variance", reads=LEARNED)
def interleaved(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """Every other channel was taken. The first C channels are the noise, the last C the
    variance."""
    small, large = fixed(table, t, s)
    return y[:, ::2], small * (large / small) ** ((y[:, 1::2] + 1) / 2)


@misconception("2.7", "variances-mixed-evenly", replaces="learned_variance", reads=LEARNED)
def mixed_evenly(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """The variances themselves were mixed. Mix their logarithms: the two can differ by orders of
    magnitude."""
    e, r = y.chunk(2, 1)
    small, large = fixed(table, t, s)
    return e, small + (large - small) * (r + 1) / 2


@misconception("2.7", "share-not-shifted", replaces="learned_variance", reads=LEARNED)
def share_not_shifted(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """The output was used as the share itself. It runs from −1 to 1; the share is (r + 1) / 2."""
    e, r = y.chunk(2, 1)
    small, large = fixed(table, t, s)
    return e, small * (large / small) ** r


@misconception("2.7", "ends-swapped", replaces="learned_variance", reads=LEARNED)
def ends_swapped(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """The ends are swapped: 1 means fixed_large, −1 fixed_small."""
    e, r = y.chunk(2, 1)
    small, large = fixed(table, t, s)
    return e, large * (small / large) ** ((r + 1) / 2)


@misconception("2.7", "logarithm-returned", replaces="learned_variance", reads=LEARNED)
def logarithm(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """This is the variance's logarithm (what DDPMScheduler's own helper returns). Take its exp."""
    e, r = y.chunk(2, 1)
    small, large = fixed(table, t, s)
    return e, (small * (large / small) ** ((r + 1) / 2)).log()


@misconception("2.7", "deviation-returned", replaces="learned_variance", reads=LEARNED)
def deviation(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """This is the standard deviation. The variance is its square."""
    e, r = y.chunk(2, 1)
    small, large = fixed(table, t, s)
    return e, (small * (large / small) ** ((r + 1) / 2)) ** 0.5


@misconception("2.7", "output-is-the-log-variance", replaces="learned_variance", reads=LEARNED)
def output_is_log(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """The output was read as the logarithm of the variance. With learned_range it only says where
    between two known variances to be."""
    e, r = y.chunk(2, 1)
    return e, r.exp()


@misconception("2.7", "beta-of-the-training-step", replaces="learned_variance", reads=REVERSE)
def training_range(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """β of a single training step was used for both ends. For a jump it is 1 − ᾱ/ᾱ_prev."""
    e, r = y.chunk(2, 1)
    beta = 1 - table[t] / table[t - 1]
    small = beta * (1 - table[s]) / (1 - table[t])
    return e, small * (beta / small) ** ((r + 1) / 2)


@misconception("2.7", "posterior-between-neighbours", replaces="learned_variance", reads=REVERSE)
def neighbours(y: Tensor, t: int, s: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """prev_t was taken to be t − 1. When timesteps are skipped, both variances are those of the
    jump."""
    e, r = y.chunk(2, 1)
    small, large = fixed(table, t, t - 1)
    return e, small * (large / small) ** ((r + 1) / 2)
