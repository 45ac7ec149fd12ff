"""Lab 03: wrong answers that people really give, each the shortest code beside its sentence."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/scheduler.md"
SCHEDULERS = (
    *("EulerDiscreteScheduler", "DDIMScheduler", "HeunDiscreteScheduler"),
    *("PNDMScheduler", "DPMSolverMultistepScheduler"),
)


def require(known: bool, what: str) -> None:
    if not known:
        raise ValueError(f"unknown {what}")


def spaced(total: int, n: int, spacing: str) -> Tensor:
    require(spacing in ("leading", "linspace", "trailing"), "spacing")
    i = torch.arange(n, dtype=torch.float64)
    if spacing == "leading":
        return i.flip(0) * (total // n)
    if spacing == "trailing":
        return (total - i * total / n).round() - 1
    return torch.linspace(0, total - 1, n, dtype=torch.float64).flip(0)


def check_count(total: int, n: int) -> None:
    if n > total:
        raise ValueError("more steps than training had")


def alphas_cumprod(config: dict[str, Any]) -> Tensor:
    start, end, total = config["beta_start"], config["beta_end"], config["num_train_timesteps"]
    if config["beta_schedule"] == "linear":
        betas = torch.linspace(start, end, total, dtype=torch.float32)
    else:
        betas = torch.linspace(start**0.5, end**0.5, total, dtype=torch.float32) ** 2
    return (1 - betas).cumprod(0)


def table(alphas: Tensor) -> Tensor:
    return ((1 - alphas.double()) / alphas.double()).sqrt()


def between(values: Tensor, at: Tensor) -> Tensor:
    low = at.double().floor().long()
    high = (low + 1).clamp(max=len(values) - 1)
    return torch.lerp(values[low], values[high], at.double() - low)


def ended(levels: Tensor) -> Tensor:
    return torch.nn.functional.pad(levels, (0, 1)).to(torch.float32)


class Euler:
    """The compact twin that the wrong ones below differ from in one place."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.index: Any = None
        self.timesteps: Any = None
        self.sigmas: Any = None
        self.init_noise_sigma: Any = None

    def set_timesteps(self, n: int) -> None:
        spacing, offset = self.config["timestep_spacing"], self.config["steps_offset"]
        t = spaced(self.config["num_train_timesteps"], n, spacing)
        self.timesteps = (t + offset if spacing == "leading" else t).float()
        self.sigmas = ended(between(table(alphas_cumprod(self.config)), self.timesteps))
        top = self.sigmas[0].item()
        self.init_noise_sigma = math.sqrt(top**2 + 1) if spacing == "leading" else top
        self.index = None

    def place(self, t: Tensor) -> int:
        if self.timesteps is None:
            raise ValueError("set_timesteps first")
        if self.index is None:
            self.index = int((self.timesteps == t).nonzero()[0])
        return int(self.index)

    def sigma(self, t: Tensor) -> float:
        return float(self.sigmas[self.place(t)])

    def scale_model_input(self, sample: Tensor, t: Tensor) -> Tensor:
        return sample / math.sqrt(self.sigma(t) ** 2 + 1)

    def derivative(self, output: Tensor, sigma: float, sample: Tensor) -> Tensor:
        if self.config["prediction_type"] == "epsilon":
            return output
        clean = sample / (sigma**2 + 1) - output * sigma / math.sqrt(sigma**2 + 1)
        return (sample - clean) / sigma

    def step(self, output: Tensor, t: Tensor, sample: Tensor) -> Tensor:
        i = self.place(t)
        sigma, following = float(self.sigmas[i]), float(self.sigmas[i + 1])
        self.index = i + 1
        slope = self.derivative(output.float(), sigma, sample.float())
        return (sample.float() + slope * (following - sigma)).to(output.dtype)


class FlowMatchEuler:
    """The compact twin of the flow matching scheduler."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.index: Any = None

    def shift(self, x: Tensor, mu: float | None) -> Tensor:
        if not self.config["use_dynamic_shifting"]:
            s = float(self.config["shift"])
        elif mu is None:
            raise ValueError("mu is missing")
        else:
            s = math.exp(mu)
        return s * x / (1 + (s - 1) * x)

    def set_timesteps(self, sigmas: list[float], mu: float | None) -> None:
        levels = self.shift(torch.tensor(sigmas, dtype=torch.float64), mu)
        self.sigmas = ended(levels)
        self.timesteps = (levels * self.config["num_train_timesteps"]).float()
        self.index = None

    def step(self, output: Tensor, t: Tensor, sample: Tensor) -> Tensor:
        if self.index is None:
            self.index = int((self.timesteps == t).nonzero()[0])
        i = self.index
        self.index = i + 1
        return sample + float(self.sigmas[i + 1] - self.sigmas[i]) * output


@misconception(
    "3.1", "leading-for-every-spacing", replaces="timesteps", reads=f"{PAGE}#timestep-spacing"
)
def leading_always(total: int, n: int, spacing: str, offset: int) -> Tensor:
    """Every spacing was answered as leading. Trailing begins at T − 1; linspace holds both ends."""
    check_count(total, n)
    require(spacing in ("leading", "linspace", "trailing"), "spacing")
    return (spaced(total, n, "leading") + offset).long()


@misconception("3.1", "offset-forgotten", replaces="timesteps", reads=f"{PAGE}#timestep-spacing")
def offset_forgotten(total: int, n: int, spacing: str, offset: int) -> Tensor:
    """steps_offset is missing. Leading adds it to every timestep, so that the last one is not 0."""
    check_count(total, n)
    return spaced(total, n, spacing).round().long()


@misconception("3.1", "offset-twice", replaces="timesteps", reads=f"{PAGE}#timestep-spacing")
def offset_twice(total: int, n: int, spacing: str, offset: int) -> Tensor:
    """steps_offset was added twice. Leading adds it once."""
    check_count(total, n)
    return (spaced(total, n, spacing) + (2 * offset if spacing == "leading" else 0)).round().long()


@misconception(
    "3.1", "offset-beyond-the-table", replaces="timesteps", reads=f"{PAGE}#timestep-spacing"
)
def offset_everywhere(total: int, n: int, spacing: str, offset: int) -> Tensor:
    """steps_offset was added to linspace or trailing as well. They begin at T − 1 already, so the
    offset takes them beyond the last training timestep; only leading has room for it."""
    check_count(total, n)
    return (spaced(total, n, spacing) + offset).round().long()


@misconception("3.1", "trailing-one-late", replaces="timesteps", reads=f"{PAGE}#timestep-spacing")
def trailing_from_total(total: int, n: int, spacing: str, offset: int) -> Tensor:
    """Trailing begins at T here. Timesteps count from 0, so the last training timestep is T − 1."""
    check_count(total, n)
    chosen = spaced(total, n, spacing)
    return (chosen + {"leading": offset, "linspace": 0, "trailing": 1}[spacing]).round().long()


@misconception(
    "3.1", "trailing-by-whole-strides", replaces="timesteps", reads=f"{PAGE}#timestep-spacing"
)
def trailing_floored(total: int, n: int, spacing: str, offset: int) -> Tensor:
    """Trailing went down by T // n. Its stride is T / n, a fraction, and each timestep is rounded:
    otherwise the run ends too early."""
    check_count(total, n)
    i = torch.arange(n, dtype=torch.float64)
    if spacing == "trailing":
        return (total - i * (total // n)).long() - 1
    return (spaced(total, n, spacing) + (offset if spacing == "leading" else 0)).round().long()


@misconception(
    "3.1", "too-many-steps-accepted", replaces="timesteps", reads=f"{PAGE}#timestep-spacing"
)
def no_limit(total: int, n: int, spacing: str, offset: int) -> Tensor:
    """More inference steps than training timesteps were accepted. There are only T to visit."""
    return (spaced(total, n, spacing) + (offset if spacing == "leading" else 0)).round().long()


@misconception(
    "3.2", "variance-for-sigma", replaces="sigmas", reads=f"{PAGE}#from-alphas-to-sigmas"
)
def no_root(alphas: Tensor, timesteps: Tensor) -> Tensor:
    """(1 − ᾱ) / ᾱ is the variance of the noise. σ is its square root."""
    return ended(between(table(alphas) ** 2, timesteps))


@misconception(
    "3.2", "alphas-interpolated", replaces="sigmas", reads=f"{PAGE}#from-alphas-to-sigmas"
)
def alphas_interpolated(alphas: Tensor, timesteps: Tensor) -> Tensor:
    """ᾱ was interpolated and σ taken of it. Euler's schedule is a straight line in σ itself."""
    return ended(table(between(alphas.double(), timesteps)))


@misconception("3.2", "nearest-timestep", replaces="sigmas", reads=f"{PAGE}#from-alphas-to-sigmas")
def nearest(alphas: Tensor, timesteps: Tensor) -> Tensor:
    """A fractional timestep was rounded to a whole one. Its σ lies between two table entries."""
    return ended(table(alphas)[timesteps.round().long()])


@misconception(
    "3.2", "last-sigma-not-zero", replaces="sigmas", reads=f"{PAGE}#from-alphas-to-sigmas"
)
def last_repeated(alphas: Tensor, timesteps: Tensor) -> Tensor:
    """The run ends at its last σ twice, a step of no size. The last entry is 0: no noise left."""
    levels = between(table(alphas), timesteps)
    return torch.cat([levels, levels[-1:]]).float()


@misconception(
    "3.2", "karras-ends-swapped", replaces="karras_sigmas", reads=f"{PAGE}#karras-sigmas"
)
def swapped(sigma_min: float, sigma_max: float, n: int, rho: float) -> Tensor:
    """σ_min and σ_max are swapped. A run begins with the most noise."""
    ramp = torch.arange(n, dtype=torch.float64) / (n - 1)
    low, high = sigma_min ** (1 / rho), sigma_max ** (1 / rho)
    return ended((low + ramp * (high - low)) ** rho)


@misconception("3.2", "karras-rho-fixed", replaces="karras_sigmas", reads=f"{PAGE}#karras-sigmas")
def always_seven(sigma_min: float, sigma_max: float, n: int, rho: float) -> Tensor:
    """ρ is always 7 here. 7 is the paper's choice for images; the function is given another."""
    ramp = torch.arange(n, dtype=torch.float64) / (n - 1)
    low, high = sigma_min ** (1 / 7), sigma_max ** (1 / 7)
    return ended((high + ramp * (low - high)) ** 7)


@misconception(
    "3.2", "karras-down-to-zero", replaces="karras_sigmas", reads=f"{PAGE}#karras-sigmas"
)
def down_to_zero(sigma_min: float, sigma_max: float, n: int, rho: float) -> Tensor:
    """σ_min plays no part: the roots run down to 0. They end at the root of σ_min; the 0 comes
    after it, as an entry of its own."""
    left = 1 - torch.arange(n, dtype=torch.float64) / (n - 1)
    return ended(sigma_max * left**rho)


@misconception(
    "3.2", "karras-never-at-sigma-min", replaces="karras_sigmas", reads=f"{PAGE}#karras-sigmas"
)
def never_at_the_end(sigma_min: float, sigma_max: float, n: int, rho: float) -> Tensor:
    """σ_min is not among the levels. n levels have n − 1 gaps: divide i by n − 1, so that the last
    one is σ_min."""
    ramp = torch.arange(n, dtype=torch.float64) / n
    low, high = sigma_min ** (1 / rho), sigma_max ** (1 / rho)
    return ended((high + ramp * (low - high)) ** rho)


@misconception("3.2", "karras-straight", replaces="karras_sigmas", reads=f"{PAGE}#karras-sigmas")
def straight(sigma_min: float, sigma_max: float, n: int, rho: float) -> Tensor:
    """The σ themselves are evenly spaced. In Karras' schedule their ρ-th roots are."""
    return ended(torch.linspace(sigma_max, sigma_min, n, dtype=torch.float64))


@misconception("3.3", "input-not-scaled", replaces="Euler", reads=f"{PAGE}#scaling-the-input")
class InputNotScaled(Euler):
    """The sample went to the model as it is. Divide by √(σ² + 1): the model was trained on inputs
    of unit variance. (On DDIM, whose samples have it already, forgetting this changes nothing.)"""

    def scale_model_input(self, sample: Tensor, t: Tensor) -> Tensor:
        self.place(t)
        return sample


@misconception("3.3", "sigma-not-root", replaces="Euler", reads=f"{PAGE}#scaling-the-input")
class SigmaNotRoot(Euler):
    """The sample was divided by σ. Divide by √(σ² + 1): the standard deviation of signal plus
    noise."""

    def scale_model_input(self, sample: Tensor, t: Tensor) -> Tensor:
        return sample / self.sigma(t)


@misconception("3.3", "variance-for-deviation", replaces="Euler", reads=f"{PAGE}#scaling-the-input")
class NoRoot(Euler):
    """The sample was divided by σ² + 1, a variance. Divide by its square root."""

    def scale_model_input(self, sample: Tensor, t: Tensor) -> Tensor:
        return sample / (self.sigma(t) ** 2 + 1)


@misconception("3.3", "scaled-in-place", replaces="Euler", reads=f"{PAGE}#scaling-the-input")
class ScaledInPlace(Euler):
    """scale_model_input changed the sample itself. The step still needs the sample as it was:
    return a new tensor."""

    def scale_model_input(self, sample: Tensor, t: Tensor) -> Tensor:
        return sample.div_(math.sqrt(self.sigma(t) ** 2 + 1))


@misconception("3.3", "scaled-to-float32", replaces="Euler", reads=f"{PAGE}#scaling-the-input")
class ScaledToFloat32(Euler):
    """The scaled sample came back in float32. Keep the sample's dtype: the model runs in it."""

    def scale_model_input(self, sample: Tensor, t: Tensor) -> Tensor:
        return super().scale_model_input(sample.float(), t)


@misconception("3.3", "initial-noise-of-one", replaces="Euler", reads=f"{PAGE}#initial-noise")
class InitialNoiseOfOne(Euler):
    """init_noise_sigma is 1, as DDIM has it. Euler's samples carry noise of size σ, so the first
    one must be multiplied by σ_max."""

    def set_timesteps(self, n: int) -> None:
        super().set_timesteps(n)
        self.init_noise_sigma = 1.0


@misconception(
    "3.3", "initial-noise-without-signal", replaces="Euler", reads=f"{PAGE}#initial-noise"
)
class InitialNoiseWithoutSignal(Euler):
    """init_noise_sigma is σ_max for leading too. There the library starts from √(σ_max² + 1), the
    size of noise plus signal."""

    def set_timesteps(self, n: int) -> None:
        super().set_timesteps(n)
        self.init_noise_sigma = self.sigmas[0].item()


@misconception(
    "3.3", "training-schedule-by-default", replaces="Euler", reads=f"{PAGE}#the-euler-step"
)
class TrainingScheduleByDefault(Euler):
    """Without set_timesteps this steps along the training schedule in silence. Raise instead: a
    forgotten call must not look like a result."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        total = config["num_train_timesteps"]
        self.timesteps = spaced(total, total, "linspace").float()
        self.sigmas = ended(table(alphas_cumprod(config)).flip(0))

    def place(self, t: Tensor) -> int:
        if self.index is None:
            self.index = int((self.timesteps - t).abs().argmin())
        return int(self.index)


@misconception("3.3", "index-not-reset", replaces="Euler", reads=f"{PAGE}#the-euler-step")
class IndexNotReset(Euler):
    """set_timesteps kept the place of the last run. A new schedule begins a new run."""

    def set_timesteps(self, n: int) -> None:
        index = self.index
        super().set_timesteps(n)
        self.index = index


@misconception("3.3", "run-without-end", replaces="Euler", reads=f"{PAGE}#the-euler-step")
class RunWithoutEnd(Euler):
    """A step past the last timestep was answered. The schedule is used up: set_timesteps begins
    another run."""

    def step(self, output: Tensor, t: Tensor, sample: Tensor) -> Tensor:
        if self.index is not None:
            self.index = min(self.index, len(self.timesteps) - 1)
        return super().step(output, t, sample)


@misconception("3.3", "linspace-rounded", replaces="Euler", reads=f"{PAGE}#timestep-spacing")
class LinspaceRounded(Euler):
    """The timesteps were rounded. Euler keeps linspace's fractions and interpolates σ at them."""

    def set_timesteps(self, n: int) -> None:
        super().set_timesteps(n)
        self.timesteps = self.timesteps.round()


@misconception(
    "3.3", "sigmas-of-rounded-timesteps", replaces="Euler", reads=f"{PAGE}#from-alphas-to-sigmas"
)
class SigmasOfRoundedTimesteps(Euler):
    """σ was read at rounded timesteps. Between two training timesteps it is interpolated."""

    def set_timesteps(self, n: int) -> None:
        super().set_timesteps(n)
        self.sigmas = ended(table(alphas_cumprod(self.config))[self.timesteps.round().long()])


@misconception("3.3", "velocity-read-as-noise", replaces="Euler", reads=f"{PAGE}#the-euler-step")
class VelocityReadAsNoise(Euler):
    """A v prediction was used as if it were ε. The tensor looks the same; only the configuration's
    prediction_type says what it means."""

    def derivative(self, output: Tensor, sigma: float, sample: Tensor) -> Tensor:
        return output


@misconception("3.3", "dtype-of-the-sample", replaces="Euler", reads=f"{PAGE}#the-euler-step")
class DtypeOfTheSample(Euler):
    """The result kept the dtype it was computed in. Return it in model_output's dtype, which the
    next call of the model expects."""

    def step(self, output: Tensor, t: Tensor, sample: Tensor) -> Tensor:
        return super().step(output.to(sample.dtype), t, sample)


@misconception("3.3", "step-from-scaled-sample", replaces="Euler", reads=f"{PAGE}#the-euler-step")
class StepFromScaledSample(Euler):
    """The step started from the scaled sample. Only the model sees that one; the step continues
    from the sample itself."""

    def step(self, output: Tensor, t: Tensor, sample: Tensor) -> Tensor:
        return super().step(output, t, sample / math.sqrt(self.sigma(t) ** 2 + 1))


@misconception("3.3", "step-backwards", replaces="Euler", reads=f"{PAGE}#the-euler-step")
class StepBackwards(Euler):
    """The step has the wrong sign: it adds noise. σ_next − σ is negative, and that is what removes
    it."""

    def derivative(self, output: Tensor, sigma: float, sample: Tensor) -> Tensor:
        return -super().derivative(output, sigma, sample)


@misconception(
    "3.4", "down-to-sigma-next", replaces="ancestral_sigmas", reads=f"{PAGE}#ancestral-sampling"
)
def down_to_next(sigma: float, sigma_next: float, eta: float) -> tuple[float, float]:
    """The step goes down to σ_next and adds noise on top, which leaves too much. It goes down to
    σ_down, so that the fresh noise brings it up to σ_next."""
    spread = sigma_next * math.sqrt(1 - (sigma_next / sigma) ** 2)
    return sigma_next, min(sigma_next, eta * spread)


@misconception(
    "3.4", "levels-exchanged", replaces="ancestral_sigmas", reads=f"{PAGE}#ancestral-sampling"
)
def levels_exchanged(sigma: float, sigma_next: float, eta: float) -> tuple[float, float]:
    """σ_up and σ_down changed places. σ_up, the fresh noise, is what η scales; σ_down comes first
    in the result."""
    up = min(sigma_next, eta * sigma_next * math.sqrt(1 - (sigma_next / sigma) ** 2))
    return up, math.sqrt(sigma_next**2 - up**2)


@misconception(
    "3.4", "levels-subtracted", replaces="ancestral_sigmas", reads=f"{PAGE}#ancestral-sampling"
)
def subtracted(sigma: float, sigma_next: float, eta: float) -> tuple[float, float]:
    """σ_down was taken as σ_next − σ_up. Standard deviations do not add; variances do."""
    spread = sigma_next * math.sqrt(1 - (sigma_next / sigma) ** 2)
    up = min(sigma_next, eta * spread)
    return sigma_next - up, up


@misconception(
    "3.4", "eta-ignored", replaces="ancestral_sigmas", reads=f"{PAGE}#ancestral-sampling"
)
def eta_ignored(sigma: float, sigma_next: float, eta: float) -> tuple[float, float]:
    """η is ignored. It scales σ_up: 0 adds no noise at all, 1 is the ancestral sampler."""
    up = math.sqrt(sigma_next**2 * (sigma**2 - sigma_next**2) / sigma**2)
    return math.sqrt(sigma_next**2 - up**2), up


@misconception(
    "3.4",
    "more-noise-than-there-is",
    replaces="ancestral_sigmas",
    reads=f"{PAGE}#ancestral-sampling",
)
def unlimited(sigma: float, sigma_next: float, eta: float) -> tuple[float, float]:
    """σ_up is larger than σ_next. No more noise can be added than the next level holds: take the
    smaller of the two."""
    up = eta * math.sqrt(sigma_next**2 * (sigma**2 - sigma_next**2) / sigma**2)
    return math.sqrt(max(sigma_next**2 - up**2, 0.0)), up


@misconception(
    "3.5",
    "shift-read-off-the-ratio",
    replaces="calculate_shift",
    reads=f"{PAGE}#flow-matching-and-shift",
)
def through_zero(seq: int, low: int, high: int, at_low: float, at_high: float) -> float:
    """μ was made proportional to the number of tokens. The line goes through two given points, not
    through zero."""
    return at_high * seq / high


@misconception(
    "3.5",
    "line-from-zero-tokens",
    replaces="calculate_shift",
    reads=f"{PAGE}#flow-matching-and-shift",
)
def line_from_zero(seq: int, low: int, high: int, at_low: float, at_high: float) -> float:
    """The line starts at 0 tokens. base_shift belongs to base_seq_len: count tokens from there."""
    return at_low + (at_high - at_low) * seq / (high - low)


@misconception(
    "3.5",
    "line-stops-at-its-ends",
    replaces="calculate_shift",
    reads=f"{PAGE}#flow-matching-and-shift",
)
def clamped(seq: int, low: int, high: int, at_low: float, at_high: float) -> float:
    """μ stops at base_shift and max_shift. The line goes on beyond both lengths."""
    share = min(max((seq - low) / (high - low), 0.0), 1.0)
    return at_low + (at_high - at_low) * share


@misconception(
    "3.5",
    "length-ignored",
    replaces="calculate_shift",
    reads=f"{PAGE}#flow-matching-and-shift",
)
def length_ignored(seq: int, low: int, high: int, at_low: float, at_high: float) -> float:
    """μ is base_shift whatever the length. A longer row of tokens needs a larger μ: go along the
    line to seq_len."""
    return at_low


@misconception(
    "3.5", "shifted-twice", replaces="FlowMatchEuler", reads=f"{PAGE}#flow-matching-and-shift"
)
class ShiftedTwice(FlowMatchEuler):
    """The shift was applied twice. Explicit sigmas go through it once (the library's default path
    does shift its smallest σ twice)."""

    def shift(self, x: Tensor, mu: float | None) -> Tensor:
        return super().shift(super().shift(x, mu), mu)


@misconception(
    "3.5", "not-shifted", replaces="FlowMatchEuler", reads=f"{PAGE}#flow-matching-and-shift"
)
class NotShifted(FlowMatchEuler):
    """The sigmas were not shifted. A shift above 1 spends more of the steps at high noise."""

    def shift(self, x: Tensor, mu: float | None) -> Tensor:
        super().shift(x, mu)
        return x


@misconception(
    "3.5", "mu-as-shift", replaces="FlowMatchEuler", reads=f"{PAGE}#flow-matching-and-shift"
)
class MuAsShift(FlowMatchEuler):
    """μ was used where e^μ belongs. The dynamic formula is the static one with the shift e^μ."""

    def shift(self, x: Tensor, mu: float | None) -> Tensor:
        return super().shift(x, None if mu is None else math.log(mu))


@misconception(
    "3.5",
    "static-shift-when-dynamic",
    replaces="FlowMatchEuler",
    reads=f"{PAGE}#flow-matching-and-shift",
)
class StaticWhenDynamic(FlowMatchEuler):
    """The configuration's shift was used although shifting is dynamic. Then μ alone counts, and a
    missing μ is an error."""

    def shift(self, x: Tensor, mu: float | None) -> Tensor:
        super().shift(x, mu)
        s: float = self.config["shift"]
        return s * x / (1 + (s - 1) * x)


@misconception(
    "3.5", "mu-optional", replaces="FlowMatchEuler", reads=f"{PAGE}#flow-matching-and-shift"
)
class MuOptional(FlowMatchEuler):
    """A missing μ was taken as no shift at all. With dynamic shifting it is an error."""

    def shift(self, x: Tensor, mu: float | None) -> Tensor:
        return x if self.config["use_dynamic_shifting"] and mu is None else super().shift(x, mu)


@misconception(
    "3.5", "flow-backwards", replaces="FlowMatchEuler", reads=f"{PAGE}#flow-matching-and-shift"
)
class FlowBackwards(FlowMatchEuler):
    """The step has the wrong sign. v points from data to noise, and σ_next − σ is negative: their
    product points to the data."""

    def step(self, output: Tensor, t: Tensor, sample: Tensor) -> Tensor:
        return super().step(-output, t, sample)


@misconception(
    "3.5",
    "timesteps-not-scaled",
    replaces="FlowMatchEuler",
    reads=f"{PAGE}#flow-matching-and-shift",
)
class TimestepsNotScaled(FlowMatchEuler):
    """The timesteps are the σ themselves. The model expects σ·T, numbers up to T."""

    def set_timesteps(self, sigmas: list[float], mu: float | None) -> None:
        super().set_timesteps(sigmas, mu)
        self.timesteps = self.sigmas[:-1].clone()


@misconception(
    "3.5",
    "flow-timesteps-made-whole",
    replaces="FlowMatchEuler",
    reads=f"{PAGE}#flow-matching-and-shift",
)
class FlowTimestepsWhole(FlowMatchEuler):
    """The timesteps were rounded. In flow matching a timestep is σ·T and keeps its fraction."""

    def set_timesteps(self, sigmas: list[float], mu: float | None) -> None:
        super().set_timesteps(sigmas, mu)
        self.timesteps = self.timesteps.round()


@misconception(
    "3.6", "one-call-a-step", replaces="denoiser_calls", reads=f"{PAGE}#counting-denoiser-calls"
)
def one_a_step(name: str, n: int) -> int:
    """One call a step was counted for every scheduler. Heun and PNDM have more timesteps than
    steps: the loop runs over scheduler.timesteps."""
    require(name in SCHEDULERS, "scheduler")
    return n


@misconception(
    "3.6",
    "heun-asks-at-the-end",
    replaces="denoiser_calls",
    reads=f"{PAGE}#counting-denoiser-calls",
)
def heun_twice(name: str, n: int) -> int:
    """Heun was counted with two calls in its last step. That step ends at σ = 0 and is a plain
    Euler step with one call."""
    require(name in SCHEDULERS, "scheduler")
    if name == "HeunDiscreteScheduler":
        return 2 * n
    return n + 1 if name == "PNDMScheduler" and n > 1 else n


@misconception(
    "3.6",
    "pndm-always-one-more",
    replaces="denoiser_calls",
    reads=f"{PAGE}#counting-denoiser-calls",
)
def pndm_always(name: str, n: int) -> int:
    """PNDM was counted with its extra call in a run of one step. The extra call belongs to the
    second step."""
    require(name in SCHEDULERS, "scheduler")
    return {"PNDMScheduler": n + 1, "HeunDiscreteScheduler": 2 * n - 1}.get(name, n)


@misconception("3.7", "slopes-added", replaces="heun_step", reads=f"{PAGE}#second-order-heun")
def slopes_added(
    first: Tensor, second: Tensor, sample: Tensor, sigma: float, following: float
) -> Tensor:
    """The two slopes were added. The step goes along their mean."""
    return sample + (following - sigma) * (first + second)


@misconception("3.7", "second-slope-alone", replaces="heun_step", reads=f"{PAGE}#second-order-heun")
def second_alone(
    first: Tensor, second: Tensor, sample: Tensor, sigma: float, following: float
) -> Tensor:
    """Only the slope at the end of the step was used. Heun takes the mean of both ends."""
    return sample + (following - sigma) * second


@misconception("3.7", "plain-euler", replaces="heun_step", reads=f"{PAGE}#second-order-heun")
def plain_euler(
    first: Tensor, second: Tensor, sample: Tensor, sigma: float, following: float
) -> Tensor:
    """This is Euler's step: the second prediction is not used."""
    return sample + (following - sigma) * first


@misconception(
    "3.7", "starts-from-the-first-step", replaces="heun_step", reads=f"{PAGE}#second-order-heun"
)
def from_the_middle(
    first: Tensor, second: Tensor, sample: Tensor, sigma: float, following: float
) -> Tensor:
    """The correction was added on top of a finished Euler step. The update starts again from the
    sample at σ."""
    middle = sample + (following - sigma) * first
    return middle + (following - sigma) * (first + second) / 2
