"""Lab 03 in plain Python: lists, loops and `math`; torch only carries values in and out."""

import math

import torch


def _alphas_cumprod(config):
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


def _table(alphas_cumprod):
    return [math.sqrt(1.0 / a - 1.0) for a in alphas_cumprod.tolist()]


def _interpolate(table, t):
    if t >= len(table) - 1:
        return table[-1]
    if t <= 0:
        return table[0]
    k = int(t)
    return table[k] * (k + 1 - t) + table[k + 1] * (t - k)


def _elementwise(function, dtype, *tensors):
    columns = [x.reshape(-1).tolist() for x in tensors]
    values = [function(*row) for row in zip(*columns, strict=True)]
    result = torch.tensor(values, dtype=torch.float64)
    return result.reshape(tensors[0].shape).to(device=tensors[0].device, dtype=dtype)


def _evenly(first, last, count):
    if count == 1:
        return [float(first)]
    return [(first * (count - 1 - i) + last * i) / (count - 1) for i in range(count)]


def timesteps(num_train_timesteps, num_inference_steps, spacing, steps_offset):
    if num_inference_steps > num_train_timesteps:
        raise ValueError("more steps than training had")
    result = []
    if spacing == "linspace":
        for t in _evenly(0, num_train_timesteps - 1, num_inference_steps):
            result.insert(0, round(t))
    elif spacing == "leading":
        stride = num_train_timesteps // num_inference_steps
        t = steps_offset
        while len(result) < num_inference_steps:
            result.insert(0, t)
            t += stride
    elif spacing == "trailing":
        for i in range(num_inference_steps, 0, -1):
            result.append(round(i * num_train_timesteps / num_inference_steps) - 1)
    else:
        raise ValueError(spacing)
    return torch.tensor(result, dtype=torch.int64)


def sigmas(alphas_cumprod, timesteps):
    table = _table(alphas_cumprod)
    levels = [_interpolate(table, float(t)) for t in timesteps.tolist()]
    return torch.tensor([*levels, 0.0], dtype=torch.float32, device=alphas_cumprod.device)


def karras_sigmas(sigma_min, sigma_max, n, rho):
    roots = _evenly(sigma_max ** (1 / rho), sigma_min ** (1 / rho), n)
    return torch.tensor([root**rho for root in roots] + [0.0])


class Euler:
    def __init__(self, config):
        self.settings = dict(config)
        self.table = _table(_alphas_cumprod(config))
        self.places = None
        self.place = None

    def set_timesteps(self, n):
        total, spacing = self.settings["num_train_timesteps"], self.settings["timestep_spacing"]
        if spacing == "linspace":
            exact = _evenly(total - 1, 0, n) if n > 1 else [0.0]
            self.timesteps = torch.tensor(exact, dtype=torch.float32)
        else:
            chosen = timesteps(total, n, spacing, self.settings["steps_offset"])
            self.timesteps = torch.tensor([float(t) for t in chosen], dtype=torch.float32)
        ts = self.timesteps.tolist()
        self.levels = [_interpolate(self.table, t) for t in ts] + [0.0]
        self.sigmas = torch.tensor(self.levels, dtype=torch.float32)
        top = max(self.levels)
        self.init_noise_sigma = (top * top + 1) ** 0.5 if spacing == "leading" else top
        self.places = {t: place for place, t in enumerate(ts)}
        self.place = None

    def _here(self, t):
        if self.places is None:
            raise ValueError("set_timesteps comes first")
        if self.place is None:
            self.place = self.places[float(t)]
        return self.levels[self.place]

    def scale_model_input(self, sample, t):
        factor = 1 / math.sqrt(1 + self._here(t) ** 2)
        return _elementwise(lambda x: x * factor, sample.dtype, sample)

    def step(self, model_output, t, sample):
        a = self._here(t)
        b = self.levels[self.place + 1]
        self.place += 1
        if self.settings["prediction_type"] == "epsilon":
            return _elementwise(
                lambda e, x: x + (b - a) * e, model_output.dtype, model_output, sample
            )
        one = 1 + a * a
        root = math.sqrt(one)
        return _elementwise(
            lambda v, x: x + (b - a) * (v / root + x * a / one),
            model_output.dtype,
            model_output,
            sample,
        )


def ancestral_sigmas(sigma, sigma_next, eta):
    if sigma_next == 0 or eta == 0:
        return float(sigma_next), 0.0
    up = min(
        sigma_next, eta * sigma_next / sigma * (sigma * sigma - sigma_next * sigma_next) ** 0.5
    )
    return ((sigma_next - up) * (sigma_next + up)) ** 0.5, float(up)


def calculate_shift(seq_len, base_seq_len, max_seq_len, base_shift, max_shift):
    along = (seq_len - base_seq_len) / (max_seq_len - base_seq_len)
    return base_shift * (1 - along) + max_shift * along


class FlowMatchEuler:
    def __init__(self, config):
        self.settings = config
        self.sigmas = self.timesteps = None

    def set_timesteps(self, sigmas, mu):
        if self.settings["use_dynamic_shifting"]:
            if mu is None:
                raise ValueError("mu is missing")
            strength = math.exp(mu)
        else:
            strength = self.settings["shift"]
        levels = []
        for s in sigmas:
            levels.append(s * strength / (s * strength + 1 - s))
        times = [level * self.settings["num_train_timesteps"] for level in levels]
        self.timesteps = torch.tensor(times, dtype=torch.float32)
        self.sigmas = torch.tensor([*levels, 0.0], dtype=torch.float32)
        self.place = None

    def step(self, model_output, t, sample):
        levels = self.sigmas.tolist() if self.sigmas is not None else None
        if levels is None:
            raise RuntimeError("not yet")
        if self.place is None:
            self.place = [float(u) for u in self.timesteps].index(float(t))
        move = levels[self.place] - levels[self.place + 1]
        self.place += 1
        return _elementwise(lambda v, x: x - move * v, model_output.dtype, model_output, sample)


def denoiser_calls(class_name, num_inference_steps):
    calls = 0
    for i in range(num_inference_steps):
        calls += 1
        if class_name == "HeunDiscreteScheduler" and i < num_inference_steps - 1:
            calls += 1
        if class_name == "PNDMScheduler" and i == 1:
            calls += 1
    known = "EulerDiscrete DDIM HeunDiscrete PNDM DPMSolverMultistep".split()
    if class_name not in [f"{kind}Scheduler" for kind in known]:
        raise ValueError(class_name)
    return calls


def heun_step(model_output, next_model_output, sample, sigma, sigma_next):
    half = (float(sigma_next) - float(sigma)) / 2
    return _elementwise(
        lambda e, f, x: x + half * e + half * f,
        model_output.dtype,
        model_output,
        next_model_output,
        sample,
    )


class DPMSolver2M:
    def __init__(self, prediction_type, lower_order_final):
        if prediction_type not in ("epsilon", "v_prediction"):
            raise ValueError(prediction_type)
        self.of_noise = prediction_type == "epsilon"
        self.lowered = lower_order_final
        self.levels = None

    def set_sigmas(self, sigmas):
        self.levels = [float(level) for level in sigmas]
        self.place, self.old = 0, None

    def step(self, model_output, sample):
        if self.levels is None:
            raise RuntimeError("not yet")
        here, there = self.levels[self.place], self.levels[self.place + 1]
        signal, next_signal = ((level * level + 1) ** -0.5 for level in (here, there))
        noise = here * signal

        def clean(v, x):
            return (x - noise * v) / signal if self.of_noise else signal * x - noise * v

        now = guess = _elementwise(clean, torch.float64, model_output, sample)
        last, short = self.place == len(self.levels) - 2, len(self.levels) - 1 < 15
        if self.old is not None and there and not (last and short and self.lowered):
            turned = math.log(here / there) / math.log(self.levels[self.place - 1] / here) / 2
            guess = _elementwise(lambda a, b: a + turned * (a - b), torch.float64, now, self.old)
        self.place, self.old = self.place + 1, now
        kept = there / here
        return _elementwise(
            lambda x, x0: next_signal * (kept * x / signal + (1 - kept) * x0),
            model_output.dtype,
            sample,
            guess,
        )
