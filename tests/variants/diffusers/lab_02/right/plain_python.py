"""Lab 02 in plain Python: lists, loops and `math`; torch only carries values in and out."""

import math

import torch


def _elementwise(function, *tensors):
    columns = [tensor.reshape(-1).tolist() for tensor in tensors]
    values = [function(*row) for row in zip(*columns, strict=True)]
    result = torch.tensor(values, dtype=torch.float64)
    return result.reshape(tensors[0].shape).to(device=tensors[0].device, dtype=tensors[0].dtype)


def _split(kind, y, x, level):
    """One value's (x0, epsilon)."""
    c, s = math.sqrt(level), math.sqrt(1.0 - level)
    if kind == "epsilon":
        return (x - s * y) / c, y
    if kind == "sample":
        return y, (x - c * y) / s
    if kind == "v_prediction":
        return c * x - s * y, c * y + s * x
    raise ValueError("what does this model predict? " + kind)


def predict_original(model_output, sample, alpha_bar, prediction_type):
    level = alpha_bar.item()
    return _elementwise(lambda y, x: _split(prediction_type, y, x, level)[0], model_output, sample)


def predict_epsilon(model_output, sample, alpha_bar, prediction_type):
    level = alpha_bar.item()
    return _elementwise(lambda y, x: _split(prediction_type, y, x, level)[1], model_output, sample)


def ddim_step(model_output, sample, alpha_bar, alpha_bar_prev, prediction_type, eta, noise):
    now, then = alpha_bar.item(), alpha_bar_prev.item()
    sigma = eta * math.sqrt((1.0 - then) * (then - now) / (then * (1.0 - now)))
    kept = math.sqrt(max(1.0 - then - sigma * sigma, 0.0))
    if noise is None:
        noise = torch.zeros_like(sample)

    def one(x, y, z):
        x0, e = _split(prediction_type, y, x, now)
        return math.sqrt(then) * x0 + kept * e + sigma * z

    return _elementwise(one, sample, model_output, noise)


def ddpm_step(
    model_output, sample, t, prev_t, alphas_cumprod, prediction_type, variance_type, noise
):
    table = alphas_cumprod.tolist()
    now = table[t]
    then = table[prev_t] if prev_t > -1 else 1.0
    alpha = now / then
    deviation = 0.0
    if prev_t > -1:
        deviation = math.sqrt(
            (1.0 - alpha) * {"fixed_large": 1.0}.get(variance_type, (1.0 - then) / (1.0 - now))
        )

    def one(x, y, z):
        x0, _ = _split(prediction_type, y, x, now)
        of_guess = math.sqrt(then) * (1.0 - alpha)
        of_sample = math.sqrt(alpha) * (1.0 - then)
        return (of_guess * x0 + of_sample * x) / (1.0 - now) + deviation * z

    return _elementwise(one, sample, model_output, noise)


def previous_alpha_bar(alphas_cumprod, prev_t, set_alpha_to_one):
    levels = [1.0 if set_alpha_to_one else alphas_cumprod[0].item(), *alphas_cumprod.tolist()]
    return torch.tensor(levels[0 if prev_t < 0 else prev_t + 1])


def clip_prediction(x0, clip_range):
    return _elementwise(lambda value: max(-clip_range, min(clip_range, value)), x0)


def dynamic_threshold(x0, ratio, max_value):
    done = []
    for one in x0:
        values = one.reshape(-1).tolist()
        ordered = sorted(map(abs, values))
        place = ratio * (len(ordered) - 1)
        k = min(int(place), len(ordered) - 2)
        bound = ordered[k] + (place - k) * (ordered[k + 1] - ordered[k])
        bound = min(max(bound, 1.0), max_value)
        done.append([min(max(value / bound, -1.0), 1.0) for value in values])
    return torch.tensor(done, dtype=torch.float64).reshape(x0.shape).to(x0.device, x0.dtype)


def learned_variance(model_output, t, prev_t, alphas_cumprod):
    count = model_output.shape[1] // 2
    now, then = alphas_cumprod[t].item(), alphas_cumprod[prev_t].item()
    large = (then - now) / then
    small = large * (1.0 - then) / (1.0 - now)
    low, high = math.log(small), math.log(large)
    variance = _elementwise(
        lambda r: math.exp(low + (high - low) * (r + 1.0) / 2.0), model_output[:, count:]
    )
    return [model_output[:, :count], variance]
