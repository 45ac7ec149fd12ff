"""Lab 03 in torch by other routes: searchsorted, logarithms, predicted x0, state as a queue."""

import math
from collections import deque

import torch


def _alphas_cumprod(config):
    """Supplied: ᾱ of the training schedule, float32 (total,), as the library tabulates it.

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


def timesteps(total, n, how, offset):
    if n > total:
        raise ValueError(f"cannot take {n} of {total}")
    ones = torch.ones(n, dtype=torch.float64)
    if how == "leading":
        places = torch.cumsum(ones * (total // n), 0).sub(total // n).add(offset)
    elif how == "trailing":
        places = torch.cumsum(ones, 0).mul(total).div(n).round().sub(1)
    elif how == "linspace":
        places = torch.arange(n, dtype=torch.float64).mul(total - 1).div(max(n - 1, 1)).round()
    else:
        raise ValueError(f"{how} is no spacing")
    return torch.sort(places.long(), descending=True).values


def sigmas(bar, where):
    bar, where = bar.to(torch.float64), where.to(bar.device, torch.float64)
    grid = torch.arange(bar.numel(), dtype=torch.float64, device=bar.device)
    table = torch.exp((torch.log1p(-bar) - torch.log(bar)) / 2)
    right = torch.searchsorted(grid, where).clamp(1, bar.numel() - 1)
    left = right - 1
    share = (where - grid[left]).clamp(0, 1)
    found = (1 - share) * table[left] + share * table[right]
    return torch.nn.functional.pad(found, (0, 1)).to(torch.float32)


def karras_sigmas(smallest, largest, n, rho):
    a, b = math.exp(math.log(largest) / rho), math.exp(math.log(smallest) / rho)
    levels = torch.zeros(n + 1, dtype=torch.float64)
    for i in range(n):
        levels[i] = math.exp(rho * math.log(a - (a - b) * i / max(n - 1, 1)))
    return levels.type(torch.float32)


class Euler:
    def __init__(self, options):
        self.options = options
        self.whole_run = None

    def set_timesteps(self, steps):
        total, how = self.options["num_train_timesteps"], self.options["timestep_spacing"]
        if how == "linspace":
            back = torch.arange(steps - 1, -1, -1, dtype=torch.float64)
            self.timesteps = (back / max(steps - 1, 1) * (total - 1)).to(torch.float32)
        else:
            where = timesteps(total, steps, how, self.options["steps_offset"])
            self.timesteps = where.to(torch.float32)
        self.sigmas = sigmas(_alphas_cumprod(self.options), self.timesteps)
        squared = self.sigmas.double().amax() ** 2
        self.init_noise_sigma = (squared + 1 if how == "leading" else squared).sqrt()
        pairs = zip(self.sigmas[:-1].double(), self.sigmas[1:].double(), strict=True)
        self.whole_run = list(zip(self.timesteps.tolist(), pairs, strict=True))
        self.left = None

    def _head(self, t):
        if self.whole_run is None:
            raise RuntimeError("there is no schedule")
        if self.left is None:
            self.left = deque(pair for time, pair in self.whole_run if time <= float(t))
        return self.left[0]

    def scale_model_input(self, latents, t):
        sigma, _ = self._head(t)
        signal = 1 / (1 + sigma.square())  # this is the alpha-bar of the level
        return (latents.double() * signal.sqrt().item()).to(latents.dtype)

    def step(self, output, t, latents):
        sigma, following = (level.item() for level in self._head(t))
        x, y = latents.double(), output.double()
        if self.options["prediction_type"] == "v_prediction":
            angle = math.atan2(sigma, 1.0)
            clean = x * math.cos(angle) ** 2 - y * math.sin(angle)
        else:
            clean = x - y * sigma
        self.left.popleft()
        return torch.lerp(clean, x, following / sigma).to(output.dtype)


def ancestral_sigmas(sigma, sigma_to, eta):
    kept = 1 - (sigma_to / sigma) ** 2
    share = min(1.0, eta * math.sqrt(kept))
    return sigma_to * math.sqrt(1 - share**2), sigma_to * share


def calculate_shift(tokens, few, many, mu_few, mu_many):
    return (mu_few * (many - tokens) + mu_many * (tokens - few)) / (many - few)


class FlowMatchEuler:
    def __init__(self, options):
        self.options = options
        self.whole_run = None

    def set_timesteps(self, levels, mu):
        if self.options["use_dynamic_shifting"] and mu is None:
            raise ValueError("which mu?")
        log_shift = mu if self.options["use_dynamic_shifting"] else math.log(self.options["shift"])
        logit = torch.logit(torch.tensor(levels, dtype=torch.float64))
        moved = torch.sigmoid(logit + log_shift)
        self.sigmas = torch.cat((moved, torch.zeros(1, dtype=torch.float64))).to(torch.float32)
        self.timesteps = self.sigmas[:-1] * float(self.options["num_train_timesteps"])
        self.whole_run = list(
            zip(self.timesteps.tolist(), (-self.sigmas.diff()).tolist(), strict=True)
        )
        self.left = None

    def step(self, velocity, t, latents):
        if self.whole_run is None:
            raise ValueError("there is no schedule")
        if self.left is None:
            self.left = deque(fall for time, fall in self.whole_run if time <= float(t))
        fall = self.left.popleft()
        return torch.sub(latents.float(), velocity.float(), alpha=fall).to(velocity.dtype)


def denoiser_calls(name, n):
    match name:
        case "EulerDiscreteScheduler" | "DDIMScheduler" | "DPMSolverMultistepScheduler":
            return n
        case "HeunDiscreteScheduler":
            return n + (n - 1)
        case "PNDMScheduler":
            return n + min(1, n - 1)
    raise ValueError(f"never heard of {name}")


def heun_step(here, there, latents, sigma, sigma_to):
    euler = latents.double() + (sigma_to - sigma) * here.double()
    correction = (sigma_to - sigma) / 2 * (there.double() - here.double())
    return euler.add(correction).to(here.dtype)


class DPMSolver2M:
    def __init__(self, prediction_type, lower_order_final):
        self.kind, self.lower, self.plan = prediction_type, lower_order_final, None

    def set_sigmas(self, levels):
        steps = len(levels) - 1
        short = self.lower and steps <= 14
        self.plan, self.guesses = deque(), deque(maxlen=2)
        for place, (now, then) in enumerate(zip(levels[:-1].double(), levels[1:].double())):
            bent = 0.0
            if place > 0 and then > 0 and not (short and place + 1 == steps):
                bent = torch.log(now / then) / torch.log(levels[place - 1].double() / now) / 2
            self.plan.append((now, then, bent))

    def step(self, output, latents):
        if self.plan is None:
            raise ValueError("no levels yet")
        now, then, bent = self.plan.popleft()
        unit = latents.double() * torch.sqrt(1 + now**2)  # clean sample with weight one
        readings = {
            "epsilon": lambda: unit - now * output.double(),
            "v_prediction": lambda: (unit / (1 + now**2)).addcmul(
                output.double(), -now / torch.sqrt(1 + now**2)
            ),
        }
        if self.kind not in readings:
            raise ValueError(self.kind)
        self.guesses.append(readings[self.kind]())
        newest, oldest = self.guesses[-1], self.guesses[0]
        clean = torch.lerp(oldest, newest, 1 + bent)
        return (torch.lerp(clean, unit, then / now) / torch.sqrt(1 + then**2)).to(output.dtype)
