"""Lab 01 in numpy and float64, by einsum and interpolation."""

import numpy as np
import torch


def _array(tensor):
    return tensor.detach().cpu().double().numpy()


def _like(array, tensor):
    return torch.from_numpy(np.asarray(array, np.float64)).to(tensor.device, tensor.dtype)


def betas(name, n, low, high):
    match name:
        case "linear":
            rows = np.interp(np.arange(n), [0, n - 1], [low, high])
        case "scaled_linear":
            rows = np.square(np.interp(np.arange(n), [0, n - 1], np.sqrt([low, high])))
        case "squaredcos_cap_v2":
            # cos²(a) is (1 + cos 2a) / 2, and the halves cancel in the ratio
            left = 1 + np.cos(np.pi * (np.linspace(0, 1, n + 1) + 0.008) / 1.008)
            rows = np.minimum(-np.diff(left) / left[:-1], 0.999)
        case _:
            raise ValueError("no schedule of that name")
    return torch.from_numpy(rows.astype(np.float32))


def alphas_cumprod(b):
    return _like(np.multiply.accumulate(1.0 - _array(b)), b)


def _read(timesteps, table):
    return np.take(_array(table), timesteps.cpu().numpy())


def _blend(weights, samples, dtype_of):
    """Σ over k of weights[k, b] · samples[k, b, …]."""
    stacked = np.stack([_array(sample) for sample in samples])
    return _like(np.einsum("kb,kb...->b...", np.stack(weights), stacked), dtype_of)


def add_noise(x0, eps, timesteps, table):
    t = timesteps.cpu().numpy()
    if np.any((t < 0) | (t > table.shape[0] - 1)):
        raise ValueError("timestep out of range")
    a = _read(timesteps, table)
    return _blend([np.sqrt(a), np.sqrt(1 - a)], [x0, eps], x0)


def velocity(x0, eps, timesteps, table):
    phi = np.arccos(np.sqrt(_read(timesteps, table)))
    return _blend([np.cos(phi), -np.sin(phi)], [eps, x0], x0)


def snr(timesteps, table):
    a = _read(timesteps, table)
    return torch.from_numpy((1 / (1 / a - 1)).astype(np.float32)).to(timesteps.device)


def zero_terminal_snr(b):
    r = np.sqrt(np.multiply.accumulate(1.0 - _array(b)))
    stretched = np.interp(r, [r[-1], r[0]], [0.0, r[0]])
    return _like(1 - np.square(stretched / np.append(1.0, stretched[:-1])), b)


def flow_noise(x0, eps, levels):
    s = _array(levels)
    return _blend([1 - s, s], [x0, eps], x0)


def training_target(x0, eps, timesteps, table, asked_for):
    if asked_for not in ("epsilon", "sample", "v_prediction"):
        raise ValueError(asked_for)
    a = np.ones(len(x0)) if asked_for != "v_prediction" else _read(timesteps, table)
    if asked_for == "sample":
        return _blend([a, 0 * a], [x0, eps], x0)
    return _blend([np.sqrt(a), -np.sqrt(1 - a)], [eps, x0], x0)
