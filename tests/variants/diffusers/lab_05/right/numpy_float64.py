"""Lab 05 in numpy and float64."""

import numpy as np
import torch


def _array(tensor):
    return tensor.detach().cpu().double().numpy()


def _tensor(array, like):
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.device, like.dtype)


def _factor(config):
    return int(np.prod(np.full(len(config["block_out_channels"]) - 1, 2)))


def latent_shape(vae_config, batch, height, width):
    sides, factor = np.array([height, width]), _factor(vae_config)
    if np.any(sides % factor):
        raise ValueError(f"choose sides that {factor} divides, {tuple(sides.tolist())} are not")
    return (batch, vae_config["latent_channels"], *(sides // factor))


def to_model_range(image):
    stacked = image.reshape((-1, *image.shape[-3:])).astype(np.float64)
    moved = np.moveaxis(stacked, 3, 1)
    return torch.from_numpy((moved - 127.5) / 127.5).float()


def to_image(tensor):
    levels = np.interp(_array(tensor), [-1.0, 1.0], [0.0, 255.0])
    return np.rint(levels).astype(np.uint8).transpose(0, 2, 3, 1)


def _halves(moments):
    mean, logvar = np.split(_array(moments), 2, axis=1)
    return mean, np.clip(logvar, -30, 20)


def posterior(moments):
    mean, logvar = _halves(moments)
    return _tensor(mean, moments), _tensor(np.exp(logvar / 2), moments)


def sample(moments, noise):
    mean, logvar = _halves(moments)
    return _tensor(mean + np.sqrt(np.exp(logvar)) * _array(noise), moments)


def mode(moments):
    return _tensor(_halves(moments)[0], moments)


def kl(moments):
    mean, logvar = _halves(moments)
    # expm1 keeps the digits of var - 1 where var is near 1.
    each = 0.5 * (np.expm1(logvar) - logvar + mean**2)
    return _tensor(each.sum(axis=(1, 2, 3)), moments)


def _affine(config, channels):
    """Latents are offset + slope·(what the denoiser sees), channel by channel."""
    ones = np.ones((1, channels, 1, 1))
    if config.get("latents_mean") is not None and config.get("latents_std") is not None:
        offset = np.reshape(config["latents_mean"], ones.shape)
        return offset, np.reshape(config["latents_std"], ones.shape) / config["scaling_factor"]
    return (config.get("shift_factor") or 0) * ones, ones / config["scaling_factor"]


def encode(vae, image, noise):
    moments = vae.encode(x=image)
    mean, logvar = _halves(moments)
    if noise is not None:
        mean = mean + np.exp(0.5 * logvar) * _array(noise)
    offset, slope = _affine(vae.config, mean.shape[1])
    return _tensor((mean - offset) / slope, image)


def decode(vae, latents):
    offset, slope = _affine(vae.config, latents.shape[1])
    return vae.decode(z=_tensor(offset + slope * _array(latents), latents))


def compression(vae_config, height, width, dtype):
    shapes = (
        (vae_config["in_channels"], height, width),
        latent_shape(vae_config, 1, height, width)[1:],
    )
    before, after = (int(np.prod(shape)) for shape in shapes)
    size = torch.empty(0, dtype=dtype).element_size()
    return np.float64(before) / after, before * size, after * size


def pack(latents):
    numbers = latents.cpu().numpy()
    if any(side & 1 for side in numbers.shape[2:]):
        raise ValueError("both sides must be even")
    corners = [numbers[:, :, i::2, j::2] for i in range(2) for j in range(2)]
    tokens = np.stack(corners, axis=2)  # (B, C, 4, h/2, w/2)
    flat = tokens.reshape(len(numbers), tokens.shape[1] * 4, -1)
    return _tensor(flat.swapaxes(1, 2), latents)


def unpack(tokens, height, width):
    if (height | width) & 1:
        raise ValueError("both sides must be even")
    numbers = tokens.cpu().numpy()
    result = np.empty((len(numbers), numbers.shape[2] // 4, height, width), numbers.dtype)
    for i in range(2):
        for j in range(2):
            plane = numbers[:, :, 2 * i + j :: 4].swapaxes(1, 2)
            result[:, :, i::2, j::2] = plane.reshape(*plane.shape[:2], height // 2, width // 2)
    return _tensor(result, tokens)
