"""Lab 03 · Scheduler reading: the time axis and the update rule of inference.

Goal: see that a scheduler is a small numerical method with a configuration. `set_timesteps` lays
out the noise levels of a run, `scale_model_input` brings the latents to the size the network was
trained on, `step` turns one prediction into the next latents. The network appears nowhere in this
file: what its output means is told by the configuration (`prediction_type`), not by the tensor.

Symbols: T = num_train_timesteps, n = num_inference_steps, t = a timestep, ᾱ = alphas_cumprod,
σ = noise level: the standard deviation of the noise when the signal has weight 1.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

import math
from typing import Any

import torch
from torch import Tensor


def _alphas_cumprod(config: dict[str, Any]) -> Tensor:
    """Supplied: ᾱ of the training schedule, float32 (T,), as the library tabulates it.

    Reads num_train_timesteps, beta_start, beta_end, beta_schedule (linear, scaled_linear or
    squaredcos_cap_v2; anything else is a ValueError). Lab 01 builds this table step by step.
    """
    count, schedule = config["num_train_timesteps"], config["beta_schedule"]
    start, end = config["beta_start"], config["beta_end"]
    if schedule == "linear":
        betas = torch.linspace(start, end, count, dtype=torch.float32)
    elif schedule == "scaled_linear":
        betas = torch.linspace(start**0.5, end**0.5, count, dtype=torch.float32) ** 2
    elif schedule == "squaredcos_cap_v2":
        times = [(i / count + 0.008) / 1.008 * math.pi / 2 for i in range(count + 1)]
        cosine = [math.cos(time) ** 2 for time in times]
        capped = [min(1 - cosine[i + 1] / cosine[i], 0.999) for i in range(count)]
        betas = torch.tensor(capped, dtype=torch.float32)
    else:
        raise ValueError(f"unknown beta_schedule: {schedule!r}")
    return torch.cumprod(1.0 - betas, dim=0)


def timesteps(
    num_train_timesteps: int, num_inference_steps: int, spacing: str, steps_offset: int
) -> Tensor:
    """3.1 · The timesteps that a run visits, noisiest first.

    Returns int64 (n,), descending, in units of training steps. Three ways to pick n of T:

    * "linspace": n points evenly from 0 to T − 1, both ends included, rounded.
    * "leading": the multiples 0, k, 2k … of k = T // n, with steps_offset added.
    * "trailing": T, T − T/n, T − 2·T/n … rounded, and then one less.

    steps_offset counts for "leading" alone. Rounding takes a half to the even neighbour.
    ValueError when n > T or the spacing is unknown.

    Source: Lin et al. 2023 (arXiv 2305.08891), table 2; DDIMScheduler.set_timesteps.

    >>> timesteps(1000, 5, "leading", 1).tolist()
    [801, 601, 401, 201, 1]
    >>> timesteps(1000, 5, "trailing", 1).tolist()
    [999, 799, 599, 399, 199]
    >>> timesteps(1000, 5, "linspace", 1).tolist()
    [999, 749, 500, 250, 0]
    """
    ### BEGIN SOLUTION
    total, count = num_train_timesteps, num_inference_steps
    if count > total:
        raise ValueError(f"{count} steps asked for, but training knew only {total}")
    index = torch.arange(count, dtype=torch.float64)
    if spacing == "linspace":
        chosen = torch.linspace(0, total - 1, count, dtype=torch.float64).flip(0).round()
    elif spacing == "leading":
        chosen = index.flip(0) * (total // count) + steps_offset
    elif spacing == "trailing":
        chosen = (total - index * (total / count)).round() - 1
    else:
        raise ValueError(f"unknown spacing: {spacing!r}")
    return chosen.to(torch.int64)
    ### END SOLUTION


def sigmas(alphas_cumprod: Tensor, timesteps: Tensor) -> Tensor:
    """3.2 · The noise level of each timestep, and the 0 that ends the run.

    alphas_cumprod: float32 (T,). timesteps: (n,), integer or float, any fractions between 0 and
    T − 1. Returns float32 (n + 1,): σ(t) = √((1 − ᾱ_t) / ᾱ_t), then 0. Between two whole
    timesteps σ itself is interpolated linearly (not ᾱ, not log σ).

    Source: Song et al. 2021 (DDIM, arXiv 2010.02502), equations 13 and 14;
    EulerDiscreteScheduler.set_timesteps with interpolation_type "linear".

    >>> sigmas(torch.tensor([0.8, 0.5, 0.2]), torch.tensor([2.0, 0.5])).tolist()
    [2.0, 0.75, 0.0]
    """
    ### BEGIN SOLUTION
    signal = alphas_cumprod.double()
    table = ((1 - signal) / signal).sqrt()
    position = timesteps.double().clamp(0, len(table) - 1)
    below = position.floor().long()
    above = position.ceil().long()
    levels = torch.lerp(table[below], table[above], position - below)
    return torch.cat([levels, levels.new_zeros(1)]).float()
    ### END SOLUTION


def karras_sigmas(sigma_min: float, sigma_max: float, n: int, rho: float) -> Tensor:
    """3.2 · Noise levels whose ρ-th roots are evenly spaced, and the 0 that ends the run.

    Returns float32 (n + 1,): σ_max first, σ_min last but one, then 0:
    σ_i = (σ_max^(1/ρ) + i / (n − 1) · (σ_min^(1/ρ) − σ_max^(1/ρ)))^ρ for i = 0 … n − 1.
    With n = 1 only σ_max and 0 remain.

    Source: Karras et al. 2022 (arXiv 2206.00364), equation 5, ρ = 7;
    EulerDiscreteScheduler with use_karras_sigmas.

    >>> karras_sigmas(1.0, 16.0, 3, 2.0).tolist()
    [16.0, 6.25, 1.0, 0.0]
    """
    ### BEGIN SOLUTION
    ramp = torch.linspace(0, 1, n, dtype=torch.float64)
    first, last = sigma_max ** (1 / rho), sigma_min ** (1 / rho)
    levels = (first + ramp * (last - first)) ** rho
    return torch.cat([levels, levels.new_zeros(1)]).float()
    ### END SOLUTION


class Euler:
    """3.3 · Euler's method along the noise axis.

    config holds exactly num_train_timesteps, beta_start, beta_end, beta_schedule, prediction_type
    ("epsilon" or "v_prediction"), timestep_spacing and steps_offset.

    After set_timesteps(n): `timesteps` float32 (n,), `sigmas` float32 (n + 1,) and
    `init_noise_sigma`, a number. A run then takes its t from `timesteps`, in order, and may begin
    in the middle. set_timesteps starts a new run, as often as you like.

    Source: Karras et al. 2022 (arXiv 2206.00364), section 3 and table 1; EulerDiscreteScheduler.

    >>> config = {"num_train_timesteps": 1000, "beta_start": 0.00085, "beta_end": 0.012}
    >>> config |= {"beta_schedule": "scaled_linear", "prediction_type": "epsilon"}
    >>> scheduler = Euler(config | {"timestep_spacing": "leading", "steps_offset": 1})
    >>> scheduler.set_timesteps(4)
    >>> scheduler.timesteps.tolist()
    [751.0, 501.0, 251.0, 1.0]
    >>> [round(sigma, 3) for sigma in scheduler.sigmas.tolist()]
    [4.117, 1.624, 0.698, 0.041, 0.0]
    >>> round(float(scheduler.init_noise_sigma), 3)
    4.236
    >>> x, t = torch.full((1, 4, 2, 2), 10.0), scheduler.timesteps[0]
    >>> round(scheduler.scale_model_input(x, t)[0, 0, 0, 0].item(), 3)
    2.36
    >>> round(scheduler.step(torch.ones_like(x), t, x)[0, 0, 0, 0].item(), 3)
    7.507
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.alphas_cumprod = _alphas_cumprod(config)
        self.timesteps: Tensor | None = None
        self.sigmas: Tensor | None = None
        self.init_noise_sigma: float | None = None
        self.step_index: int | None = None  # where the run stands; None: it has not begun

    def set_timesteps(self, num_inference_steps: int) -> None:
        """3.3 · Lay out a new run: `timesteps`, `sigmas`, `init_noise_sigma`.

        The timesteps are those of 3.1 as float32, except that "linspace" keeps its fractions.
        init_noise_sigma is the largest σ, and for "leading" √(σ² + 1) of it.
        """
        ### BEGIN SOLUTION
        total, spacing = self.config["num_train_timesteps"], self.config["timestep_spacing"]
        if spacing == "linspace":
            even = torch.linspace(0, total - 1, num_inference_steps, dtype=torch.float64)
            self.timesteps = even.flip(0).float()
        else:
            whole = timesteps(total, num_inference_steps, spacing, self.config["steps_offset"])
            self.timesteps = whole.float()
        self.sigmas = sigmas(self.alphas_cumprod, self.timesteps)
        largest = self.sigmas.max().item()
        self.init_noise_sigma = math.hypot(largest, 1.0) if spacing == "leading" else largest
        self.step_index = None
        ### END SOLUTION

    def _position(self, t: Tensor | float) -> tuple[int, float, float]:
        """3.3 · A helper you may use or delete: (index, σ, σ_next) of where the run stands.

        The first t of a run tells where it begins; from then on `step` counts.
        RuntimeError (or ValueError) before set_timesteps, an error of any kind past the end.
        """
        ### BEGIN SOLUTION
        if self.timesteps is None or self.sigmas is None:
            raise RuntimeError("call set_timesteps first: without it there is no run to be in")
        if self.step_index is None:
            self.step_index = self.timesteps.tolist().index(float(t))
        i = self.step_index
        if i >= len(self.timesteps):
            raise IndexError("the run is over: call set_timesteps to begin another")
        return i, self.sigmas[i].item(), self.sigmas[i + 1].item()
        ### END SOLUTION

    def scale_model_input(self, sample: Tensor, t: Tensor | float) -> Tensor:
        """3.3 · The sample at the size the network saw in training: x / √(σ² + 1).

        sample: any shape, e.g. (B, C, H, W). Returns the same shape and dtype; `sample` itself
        stays as it is, and so does the place in the run. Before set_timesteps: RuntimeError or
        ValueError.
        """
        ### BEGIN SOLUTION
        _, sigma, _ = self._position(t)
        return sample / math.sqrt(sigma**2 + 1)
        ### END SOLUTION

    def step(self, model_output: Tensor, t: Tensor | float, sample: Tensor) -> Tensor:
        """3.3 · One Euler step: from the noise level of t to the next one.

        sample is the *unscaled* sample; model_output has its shape. With x0 the clean sample that
        the prediction implies,

        * epsilon: x0 = x − σ·ε
        * v_prediction: x0 = x / (σ² + 1) − v·σ / √(σ² + 1)
        * then d = (x − x0) / σ, and the result is x + d·(σ_next − σ).

        Computed in float32 also for half precision; returned in model_output's dtype. Before
        set_timesteps: RuntimeError or ValueError. After the last step: an error of any kind.
        Another prediction_type: ValueError.
        """
        ### BEGIN SOLUTION
        i, sigma, sigma_next = self._position(t)
        x, output = sample.float(), model_output.float()
        if self.config["prediction_type"] == "epsilon":
            x0 = x - sigma * output
        elif self.config["prediction_type"] == "v_prediction":
            x0 = x / (sigma**2 + 1) - output * (sigma / math.sqrt(sigma**2 + 1))
        else:
            raise ValueError(f"unknown prediction_type: {self.config['prediction_type']!r}")
        derivative = (x - x0) / sigma
        self.step_index = i + 1
        return (x + derivative * (sigma_next - sigma)).to(model_output.dtype)
        ### END SOLUTION


def ancestral_sigmas(sigma: float, sigma_next: float, eta: float) -> tuple[float, float]:
    """3.4 · Where an ancestral step goes down to, and how much fresh noise it then adds.

    Returns (σ_down, σ_up), two floats whose squares add to σ_next². σ_up is η times the standard
    deviation of DDPM's posterior in these units, and at most σ_next. sigma > sigma_next ≥ 0. With
    η = 0 nothing is added: (σ_next, 0).

    Read: handbook/scheduler.md, "Ancestral sampling".
    Source: Song et al. 2021 (DDIM, arXiv 2010.02502), equation 16, in units of x / √ᾱ;
    EulerAncestralDiscreteScheduler.step (always η = 1).

    >>> [round(level, 3) for level in ancestral_sigmas(5.0, 4.0, 1.0)]
    [3.2, 2.4]
    >>> ancestral_sigmas(5.0, 4.0, 0.0)
    (4.0, 0.0)
    """
    ### BEGIN SOLUTION
    spread = math.sqrt(sigma_next**2 * (sigma**2 - sigma_next**2) / sigma**2)
    sigma_up = min(sigma_next, eta * spread)
    sigma_down = math.sqrt(sigma_next**2 - sigma_up**2)
    return sigma_down, sigma_up
    ### END SOLUTION


def calculate_shift(
    seq_len: int, base_seq_len: int, max_seq_len: int, base_shift: float, max_shift: float
) -> float:
    """3.5 · μ for an image of seq_len tokens, on the line through two known lengths.

    The line passes through (base_seq_len, base_shift) and (max_seq_len, max_shift), and goes on
    beyond both ends.

    Source: calculate_shift in diffusers.pipelines.flux (256 → 0.5, 4096 → 1.15).

    >>> calculate_shift(1024, 256, 4096, 0.5, 1.15)
    0.63
    """
    ### BEGIN SOLUTION
    slope = (max_shift - base_shift) / (max_seq_len - base_seq_len)
    return base_shift + slope * (seq_len - base_seq_len)
    ### END SOLUTION


class FlowMatchEuler:
    """3.5 · Euler's method for flow matching: straight lines from noise to data.

    config holds num_train_timesteps, shift and use_dynamic_shifting. Here x_σ = (1 − σ)·x0 + σ·ε
    with σ from 1 to 0, the network predicts the velocity v = ε − x0, and nothing is scaled.

    Source: Esser et al. 2024 (arXiv 2403.03206), equation 23 for the shift;
    FlowMatchEulerDiscreteScheduler given explicit sigmas.

    >>> config = {"num_train_timesteps": 1000, "shift": 3.0, "use_dynamic_shifting": False}
    >>> scheduler = FlowMatchEuler(config)
    >>> scheduler.set_timesteps([1.0, 0.5], None)
    >>> scheduler.sigmas.tolist(), scheduler.timesteps.tolist()
    ([1.0, 0.75, 0.0], [1000.0, 750.0])
    >>> scheduler.step(torch.ones(2), scheduler.timesteps[0], torch.zeros(2)).tolist()
    [-0.25, -0.25]
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.timesteps: Tensor | None = None
        self.sigmas: Tensor | None = None
        self.step_index: int | None = None  # where the run stands; None: it has not begun

    def set_timesteps(self, sigmas: list[float], mu: float | None) -> None:
        """3.5 · Lay out a run along `sigmas`, a descending list in (0, 1] without the final 0.

        Every σ is shifted once. Static (use_dynamic_shifting false, mu None):
        σ' = s·σ / (1 + (s − 1)·σ) with s the config's shift. Dynamic: σ' = e^μ / (e^μ + 1/σ − 1);
        the config's shift plays no part, and mu None is a ValueError.

        Afterwards `sigmas` is float32 (n + 1,), shifted and ending in 0; `timesteps` is float32
        (n,), the shifted σ times num_train_timesteps.
        """
        ### BEGIN SOLUTION
        even = torch.tensor(sigmas, dtype=torch.float64)
        if not self.config["use_dynamic_shifting"]:
            shift = self.config["shift"]
            shifted = shift * even / (1 + (shift - 1) * even)
        elif mu is None:
            raise ValueError("dynamic shifting needs mu: see calculate_shift")
        else:
            shifted = math.exp(mu) / (math.exp(mu) + 1 / even - 1)
        self.sigmas = torch.cat([shifted, shifted.new_zeros(1)]).float()
        self.timesteps = (shifted * self.config["num_train_timesteps"]).float()
        self.step_index = None
        ### END SOLUTION

    def step(self, model_output: Tensor, t: Tensor | float, sample: Tensor) -> Tensor:
        """3.5 · One Euler step along the velocity: x + (σ_next − σ)·v.

        Computed in float32 also for half precision; returned in model_output's dtype. t is an
        element of `timesteps`, in order, possibly from the middle. Before set_timesteps:
        RuntimeError or ValueError. After the last step: an error of any kind.
        """
        ### BEGIN SOLUTION
        if self.timesteps is None or self.sigmas is None:
            raise RuntimeError("call set_timesteps first")
        if self.step_index is None:
            self.step_index = self.timesteps.tolist().index(float(t))
        i = self.step_index
        stride = self.sigmas[i + 1].item() - self.sigmas[i].item()
        self.step_index = i + 1
        return (sample.float() + stride * model_output.float()).to(model_output.dtype)
        ### END SOLUTION


def denoiser_calls(class_name: str, num_inference_steps: int) -> int:
    """3.6 · How often a run calls the denoiser: the length of the library's `timesteps`.

    class_name is EulerDiscreteScheduler, DDIMScheduler, HeunDiscreteScheduler, PNDMScheduler
    (with skip_prk_steps=True) or DPMSolverMultistepScheduler; another name is a ValueError.

    * One call a step: Euler, DDIM, DPM-Solver++ (a multistep method remembers, it does not ask).
    * Heun asks twice a step, but once in the last.
    * PNDM asks once more in its second step. A run of one step has no second step.

    Source: len(scheduler.timesteps) after set_timesteps(n), in diffusers 0.42.1.

    >>> denoiser_calls("HeunDiscreteScheduler", 10)
    19
    >>> denoiser_calls("PNDMScheduler", 50)
    51
    """
    ### BEGIN SOLUTION
    if class_name in (
        "EulerDiscreteScheduler",
        "DDIMScheduler",
        "DPMSolverMultistepScheduler",
    ):
        return num_inference_steps
    if class_name == "HeunDiscreteScheduler":
        return 2 * num_inference_steps - 1
    if class_name == "PNDMScheduler":
        return num_inference_steps + 1 if num_inference_steps > 1 else 1
    raise ValueError(f"unknown scheduler: {class_name!r}")
    ### END SOLUTION


def heun_step(
    model_output: Tensor,
    next_model_output: Tensor,
    sample: Tensor,
    sigma: float,
    sigma_next: float,
) -> Tensor:
    """3.7 · One second-order update: Euler, corrected by what the slope is at the far end.

    model_output is ε at (sample, σ); next_model_output is ε at (x', σ_next), where x' is the
    sample that a plain Euler step reached. The update starts again from `sample`. All three
    tensors have one shape; σ > σ_next > 0. Computed in float32, returned in model_output's dtype.

    Read: handbook/scheduler.md, "Second order: Heun".
    Source: Karras et al. 2022 (arXiv 2206.00364), algorithm 1; HeunDiscreteScheduler.step, whose
    every second call does this (the last step of a run, to σ = 0, stays a plain Euler step).

    >>> x = torch.tensor([10.0])
    >>> heun_step(torch.tensor([1.0]), torch.tensor([3.0]), x, 5.0, 4.0).tolist()
    [8.0]
    """
    ### BEGIN SOLUTION
    slope = (model_output.float() + next_model_output.float()) / 2
    return (sample.float() + (sigma_next - sigma) * slope).to(model_output.dtype)
    ### END SOLUTION


class DPMSolver2M:
    """3.8 · DPM-Solver++ of second order, multistep: the guess before, remembered, bends the step.

    prediction_type is "epsilon" or "v_prediction" (another: ValueError). Samples are in training
    units, as DDIM's: x = α·x0 + γ·ε with α = √ᾱ, γ = √(1 − ᾱ) and σ = γ / α. All of a step is
    exact but for x0, which follows a line in λ = log(α / γ) through this guess and the one before;
    its value in the middle of the step stands for it.

    A step is of first order, with x0 constant, where there is no guess before it, and where it is
    the run's last and either ends at σ = 0, or the run has fewer than 15 steps and
    lower_order_final is set.

    Read: handbook/scheduler.md, "Multistep: DPM-Solver++".
    Source: Lu et al. 2022 (DPM-Solver++, arXiv 2211.01095), algorithm 2;
    DPMSolverMultistepScheduler with solver_order 2 and solver_type "midpoint".

    >>> scheduler = DPMSolver2M("epsilon", lower_order_final=True)
    >>> scheduler.set_sigmas(torch.tensor([4.0, 1.0, 0.5, 0.0]))
    >>> x, told = torch.full((1, 4, 2, 2), 2.0), []
    >>> for epsilon in (1.0, 0.5, -1.0):
    ...     x = scheduler.step(torch.full_like(x, epsilon), x)
    ...     told.append(round(x[0, 0, 0, 0].item(), 3))
    >>> told
    [3.71, 4.525, 5.559]
    """

    def __init__(self, prediction_type: str, lower_order_final: bool) -> None:
        self.prediction_type = prediction_type
        self.lower_order_final = lower_order_final
        self.sigmas: list[float] | None = None
        self.step_index = 0
        self.before: Tensor | None = None  # the guess of x0 in the step before

    def set_sigmas(self, sigmas: Tensor) -> None:
        """3.8 · Begin a run along `sigmas`: float32 (n + 1,), descending; the last may be 0.

        It may be called again, and then another run begins, which knows nothing of the last one.
        """
        ### BEGIN SOLUTION
        self.sigmas = sigmas.tolist()
        self.step_index = 0
        self.before = None
        ### END SOLUTION

    def _weights(self, sigma: float) -> tuple[float, float, float]:
        """3.8 · A helper you may use or delete: (α, γ, λ) of a noise level, λ of σ = 0 too."""
        ### BEGIN SOLUTION
        signal = 1 / math.hypot(sigma, 1)
        spread = sigma * signal
        return signal, spread, math.log(signal / spread) if spread else math.inf
        ### END SOLUTION

    def step(self, model_output: Tensor, sample: Tensor) -> Tensor:
        """3.8 · From the run's next level to the one after it.

        model_output and sample: one shape, e.g. (B, C, H, W). Computed in float32, returned in
        model_output's dtype. The first call steps from sigmas[0] to sigmas[1], the next one goes on
        from there. Before set_sigmas: RuntimeError or ValueError. After the last step: an error of
        any kind.
        """
        ### BEGIN SOLUTION
        if self.sigmas is None:
            raise RuntimeError("call set_sigmas first: without it there is no run to be in")
        i, n = self.step_index, len(self.sigmas) - 1
        if i >= n:
            raise IndexError("the run is over: call set_sigmas to begin another")
        sigma_next = self.sigmas[i + 1]
        signal, spread, position = self._weights(self.sigmas[i])
        signal_next, spread_next, position_next = self._weights(sigma_next)
        x, predicted = sample.float(), model_output.float()
        if self.prediction_type == "epsilon":
            x0 = (x - spread * predicted) / signal
        elif self.prediction_type == "v_prediction":
            x0 = signal * x - spread * predicted
        else:
            raise ValueError(f"unknown prediction_type: {self.prediction_type!r}")
        h = position_next - position
        lowered = i == n - 1 and (sigma_next == 0 or (self.lower_order_final and n < 15))
        middle = x0
        if self.before is not None and not lowered:
            h_before = position - self._weights(self.sigmas[i - 1])[2]
            r = h_before / h
            middle = x0 + (x0 - self.before) / (2 * r)
        self.step_index, self.before = i + 1, x0
        x_next = (spread_next / spread) * x + signal_next * (1 - math.exp(-h)) * middle
        return x_next.to(model_output.dtype)
        ### END SOLUTION
