"""Lab 03 in numpy and float64, with the tables worked out beforehand."""

import math

import numpy as np
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


CALLS_PER_STEP = {  # (calls for each step, calls more or less, at least)
    "EulerDiscreteScheduler": (1, 0, 0),
    "DDIMScheduler": (1, 0, 0),
    "DPMSolverMultistepScheduler": (1, 0, 0),
    "HeunDiscreteScheduler": (2, -1, 0),
    "PNDMScheduler": (1, 1, 2),
}


def _array(tensor):
    return tensor.detach().cpu().double().numpy()


def _like(array, tensor):
    return torch.from_numpy(np.asarray(array, np.float64)).to(tensor.device, tensor.dtype)


def _axis(total, count, spacing, offset):
    if spacing == "linspace":
        return np.linspace(0, total - 1, count)[::-1]
    if spacing == "leading":
        return np.arange(count)[::-1] * float(total // count) + offset
    if spacing == "trailing":
        return np.rint(np.arange(count, 0, -1) * total / count) - 1.0
    raise ValueError(f"no such spacing: {spacing}")


def timesteps(total, count, spacing, offset):
    if not count <= total:
        raise ValueError("n > T")
    return torch.from_numpy(np.rint(_axis(total, count, spacing, offset)).astype(np.int64))


def _levels(alphas_cumprod, t):
    bar = _array(alphas_cumprod)
    return np.interp(t, np.arange(bar.size), np.sqrt(1 - bar) / np.sqrt(bar))


def sigmas(alphas_cumprod, timesteps):
    found = np.append(_levels(alphas_cumprod, _array(timesteps)), 0)
    return torch.from_numpy(found.astype(np.float32)).to(alphas_cumprod.device)


def karras_sigmas(low, high, n, rho):
    roots = np.linspace(np.power(high, 1 / rho), np.power(low, 1 / rho), n)
    return torch.from_numpy(np.append(np.power(roots, rho), 0).astype(np.float32))


class _Run:
    """What both schedulers share: rows of a table, one for each timestep, read one by one."""

    timesteps = sigmas = rows = None

    def _begin(self, times, levels):
        self.timesteps = torch.from_numpy(np.ascontiguousarray(times, np.float32))
        self.sigmas = torch.from_numpy(np.append(levels, 0).astype(np.float32))
        self.rows = np.stack([levels, np.append(levels[1:], 0)], axis=1)
        self.row = -1

    def _row(self, t):
        if self.rows is None:
            raise RuntimeError("no timesteps are set")
        if self.row < 0:
            self.row = int(np.abs(self.timesteps.numpy() - np.float32(float(t))).argmin())
        return self.rows[self.row]


class Euler(_Run):
    def __init__(self, config):
        self.config = config
        self.bar = _alphas_cumprod(config)

    def set_timesteps(self, count):
        c = self.config
        axis = _axis(c["num_train_timesteps"], count, c["timestep_spacing"], c["steps_offset"])
        times = axis.astype(np.float32)
        self._begin(times, _levels(self.bar, times))
        top = self.rows.max()
        self.init_noise_sigma = float(np.hypot(top, c["timestep_spacing"] == "leading"))

    def scale_model_input(self, latents, t):
        return _like(_array(latents) * (self._row(t)[0] ** 2 + 1) ** -0.5, latents)

    def step(self, prediction, t, latents):
        now, then = self._row(t)
        x, y = _array(latents), _array(prediction)
        if self.config["prediction_type"] == "v_prediction":
            # from the rotated pair (x, v) back to the noise
            y = (y * np.sqrt(now**2 + 1) + x * now) / (now**2 + 1)
        self.row += 1
        return _like(x - y * (now - then), prediction)


def ancestral_sigmas(now, then, eta):
    variance = then**2 - then**4 / now**2
    up = np.minimum(then, eta * np.sqrt(np.maximum(variance, 0)))
    return float(np.sqrt(np.maximum((then - up) * (then + up), 0))), float(up)


def calculate_shift(seq_len, base_seq_len, max_seq_len, base_shift, max_shift):
    run, rise = np.subtract([max_seq_len, max_shift], [base_seq_len, base_shift])
    at_zero = (base_shift * max_seq_len - max_shift * base_seq_len) / run
    return float(at_zero + seq_len * rise / run)


class FlowMatchEuler(_Run):
    def __init__(self, config):
        self.config = config

    def set_timesteps(self, given, mu):
        s = np.array(given, np.float64)
        if not self.config["use_dynamic_shifting"]:
            factor = np.float64(self.config["shift"])
        elif mu is not None:
            factor = np.exp(np.float64(mu))
        else:
            raise ValueError("mu?")
        odds = factor * s / np.where(s < 1, 1 - s, np.inf)
        shifted = np.where(s < 1, odds / (1 + odds), 1.0)
        self._begin(shifted * self.config["num_train_timesteps"], shifted)

    def step(self, velocity, t, latents):
        pair = self._row(t)
        self.row += 1
        return _like(_array(latents) + np.diff(pair) * _array(velocity), velocity)


def denoiser_calls(name, n):
    if name not in CALLS_PER_STEP:
        raise ValueError(name)
    each, more, least = CALLS_PER_STEP[name]
    return n * each + (more if n >= least else 0)


def heun_step(first, second, latents, now, then):
    slopes = np.stack([_array(first), _array(second)])
    return _like(_array(latents) - (float(now) - float(then)) * slopes.mean(axis=0), first)


class DPMSolver2M:
    def __init__(self, kind, lower):
        self.kind, self.lower, self.at = kind, lower, None

    def set_sigmas(self, levels):
        sigma = _array(levels)
        self.alpha = 1 / np.sqrt(1 + sigma**2)
        self.s = sigma * self.alpha
        with np.errstate(divide="ignore"):
            self.lam = np.log(self.alpha) - np.log(self.s)
        self.h = np.diff(self.lam)
        first = np.zeros(len(self.h), dtype=bool)
        first[0] = True
        first[-1] |= sigma[-1] == 0 or (self.lower and len(self.h) < 15)
        self.first_order, self.at, self.kept = first, 0, None

    def step(self, output, latents):
        if self.at is None:
            raise RuntimeError("levels?")
        k, x, given = self.at, _array(latents), _array(output)
        h = self.h[k]
        if self.kind == "epsilon":
            d0 = (x - self.s[k] * given) / self.alpha[k]
        elif self.kind == "v_prediction":
            d0 = self.alpha[k] * x - self.s[k] * given
        else:
            raise ValueError(self.kind)
        phi = np.expm1(-h)
        moved = self.s[k + 1] / self.s[k] * x - self.alpha[k + 1] * phi * d0
        if not self.first_order[k]:
            d1 = h / self.h[k - 1] * (d0 - self.kept)
            moved -= 0.5 * self.alpha[k + 1] * phi * d1
        self.at, self.kept = k + 1, d0
        return _like(moved, output)
