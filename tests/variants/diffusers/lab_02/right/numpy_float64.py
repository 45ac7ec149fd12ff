"""Lab 02 in numpy and float64: signal and noise as the two coordinates of a rotated plane."""

import numpy as np
import torch


def _array(tensor):
    return tensor.detach().cpu().double().numpy()


def _like(array, tensor):
    return torch.from_numpy(np.asarray(array, np.float64)).to(tensor.device, tensor.dtype)


def _angle(level):
    """phi with cos(phi) the signal's weight and sin(phi) the noise's."""
    return np.arctan2(np.sqrt(1 - level), np.sqrt(level))


def _coordinates(output, x, level, kind):
    phi = _angle(level)
    if kind == "v_prediction":
        turned = (x + 1j * output) * np.exp(1j * phi)
        return turned.real, turned.imag
    if kind == "epsilon":
        return x / np.cos(phi) - np.tan(phi) * output, output
    if kind == "sample":
        return output, x / np.sin(phi) - output / np.tan(phi)
    raise ValueError(f"{kind} is no prediction type")


def predict_original(model_output, sample, alpha_bar, prediction_type):
    found = _coordinates(_array(model_output), _array(sample), _array(alpha_bar), prediction_type)
    return _like(found[0], sample)


def predict_epsilon(model_output, sample, alpha_bar, prediction_type):
    found = _coordinates(_array(model_output), _array(sample), _array(alpha_bar), prediction_type)
    return _like(found[1], sample)


def ddim_step(model_output, sample, alpha_bar, alpha_bar_prev, prediction_type, eta, noise):
    a, p = np.float64(alpha_bar.item()), np.float64(alpha_bar_prev.item())
    clean, old = _coordinates(_array(model_output), _array(sample), a, prediction_type)
    new_share = np.square(eta) * (p - a) / (p - p * a)  # of the noise that the new level holds
    result = np.sqrt(p) * clean + np.sqrt((1 - p) * (1 - new_share)) * old
    if eta > 0:
        result = result + np.sqrt((1 - p) * new_share) * _array(noise)
    return _like(result, sample)


def ddpm_step(
    model_output, sample, t, prev_t, alphas_cumprod, prediction_type, variance_type, noise
):
    levels = np.append(_array(alphas_cumprod), 1.0)  # so that index -1 is the end of the run
    a, p = levels[t], levels[prev_t]
    x = _array(sample)
    clean, _ = _coordinates(_array(model_output), x, a, prediction_type)
    # the product of two Gaussians: what x says about x_prev, and what the guess says
    if prev_t < 0:
        return _like(clean, sample)
    precision = np.array([(a / p) / (1 - a / p), 1 / (1 - p)])
    centres = np.stack([x / np.sqrt(a / p), np.sqrt(p) * clean])
    mean = np.average(centres, axis=0, weights=precision)
    variance = 1 / precision.sum() if variance_type == "fixed_small" else 1 - a / p
    return _like(mean + np.sqrt(variance) * _array(noise), sample)


def previous_alpha_bar(alphas_cumprod, prev_t, set_alpha_to_one):
    table = alphas_cumprod.numpy()
    before = np.float32(1) if set_alpha_to_one else table[0]
    return torch.as_tensor(np.where(prev_t < 0, before, table[max(prev_t, 0)]))


def clip_prediction(x0, clip_range):
    return _like(np.clip(_array(x0), -clip_range, clip_range), x0)


def dynamic_threshold(x0, ratio, max_value):
    pixels = _array(x0)
    axes = tuple(range(1, pixels.ndim))
    bound = np.quantile(np.abs(pixels), ratio, axis=axes, keepdims=True)
    bound = np.clip(bound, 1, max_value)
    return _like(np.clip(pixels / bound, -1, 1), x0)


def learned_variance(model_output, t, prev_t, alphas_cumprod):
    epsilon, r = np.split(_array(model_output), 2, axis=1)
    bar = _array(alphas_cumprod)
    beta = 1 - bar[t] / bar[prev_t]
    ratio = (1 - bar[prev_t]) / (1 - bar[t])
    variance = beta * ratio ** ((1 - r) / 2)
    return _like(epsilon, model_output), _like(variance, model_output)
