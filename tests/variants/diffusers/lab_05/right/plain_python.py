"""Lab 05 with loops and Python floats."""

import math

import numpy as np
import torch


def latent_shape(config, count, high, wide):
    f = 1
    for _ in config["block_out_channels"][1:]:
        f *= 2
    for side in (high, wide):
        if side // f * f != side:
            raise ValueError("a side of " + str(side) + " is not divisible by " + str(f))
    return [count, config["latent_channels"], high // f, wide // f]


def to_model_range(image):
    batch = [image] if len(image.shape) == 3 else list(image)
    rows = []
    for picture in batch:
        values = picture.tolist()
        rows.append(
            [[[2 * (pixel[c] / 255) - 1 for pixel in row] for row in values] for c in range(3)]
        )
    return torch.tensor(rows)


def to_image(tensor):
    result = np.zeros((tensor.shape[0], tensor.shape[2], tensor.shape[3], 3), dtype=np.uint8)
    for b, picture in enumerate(tensor.tolist()):
        for c, plane in enumerate(picture):
            for y, row in enumerate(plane):
                for x, value in enumerate(row):
                    level = math.floor(255 * (value + 1) / 2 + 0.5)
                    result[b, y, x, c] = 0 if level < 0 else 255 if level > 255 else level
    return result


def _map(function, *tensors):
    pairs = zip(*(tensor.flatten().tolist() for tensor in tensors), strict=True)
    values = torch.tensor([function(*pair) for pair in pairs], dtype=torch.float64)
    return values.reshape(tensors[0].shape).to(tensors[0].device, torch.float32)


def _bounded(value):
    return min(max(value, -30.0), 20.0)


def _first(moments):
    return moments[:, : moments.size(1) // 2]


def _second(moments):
    return moments[:, moments.size(1) // 2 :]


def posterior(moments):
    return [_first(moments), _map(lambda v: math.sqrt(math.exp(_bounded(v))), _second(moments))]


def sample(moments, noise):
    def one(mean, logvar, z):
        return mean + math.exp(_bounded(logvar) / 2) * z

    return _map(one, _first(moments), _second(moments), noise)


def mode(moments):
    return _first(moments)


def kl(moments):
    totals = []
    for image in moments:
        half = len(image) // 2
        means = image[:half].flatten().tolist()
        logs = [_bounded(value) for value in image[half:].flatten().tolist()]
        terms = (m * m + math.exp(v) - 1 - v for m, v in zip(means, logs, strict=True))
        totals.append(math.fsum(terms) / 2)
    return torch.tensor(totals, device=moments.device)


def _constants(vae, channel):
    """What is subtracted from this channel, and what it is then multiplied by."""
    config = vae.config
    mean, std = config["latents_mean"], config["latents_std"]
    if mean is None or std is None:
        shift = config["shift_factor"]
        return (0.0 if shift is None else shift), config["scaling_factor"]
    return mean[channel], config["scaling_factor"] / std[channel]


def encode(vae, image, noise):
    answer = vae.encode(image)
    chosen = mode(answer) if noise is None else sample(answer, noise)
    planes = []
    for c in range(chosen.shape[1]):
        subtrahend, multiplier = _constants(vae, c)
        planes.append((chosen[:, c] - subtrahend) * multiplier)
    return torch.stack(planes, dim=1)


def decode(vae, latents):
    images = []
    for one in latents:
        planes = []
        for c, plane in enumerate(one):
            subtrahend, multiplier = _constants(vae, c)
            planes.append(plane / multiplier + subtrahend)
        images.append(vae.decode(torch.stack(planes)[None])[0])
    return torch.stack(images)


def compression(config, high, wide, dtype):
    f = 2 ** (len(config["block_out_channels"]) - 1)
    size = {torch.float16: 2, torch.bfloat16: 2, torch.float32: 4, torch.float64: 8}[dtype]
    image = config["in_channels"] * high * wide
    small = config["latent_channels"] * (high // f) * (wide // f)
    return [torch.tensor(image / small), size * image, size * small]


def pack(latents):
    c, h, w = latents.shape[1:]
    if h % 2 == 1 or w % 2 == 1:
        raise ValueError("odd")
    tokens = []
    for y in range(0, h, 2):
        for x in range(0, w, 2):
            token = [latents[:, k, y + i, x + j] for k in range(c) for i in (0, 1) for j in (0, 1)]
            tokens.append(torch.stack(token, dim=-1))
    return torch.stack(tokens, dim=1)


def unpack(tokens, h, w):
    if h % 2 == 1 or w % 2 == 1:
        raise ValueError("odd")
    c = tokens.shape[2] // 4
    latents = tokens.new_empty(tokens.shape[0], c, h, w)
    for n in range(tokens.shape[1]):
        y, x = divmod(n, w // 2)
        for feature in range(4 * c):
            k, place = divmod(feature, 4)
            i, j = divmod(place, 2)
            latents[:, k, 2 * y + i, 2 * x + j] = tokens[:, n, feature]
    return latents
