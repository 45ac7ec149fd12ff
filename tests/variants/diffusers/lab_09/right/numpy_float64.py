"""Lab 09 with numpy in float64; torch only at the borders."""

import numpy as np
import torch


def _array(tensor):
    return tensor.cpu().numpy().astype(np.float64)


def _tensor(array, like):
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.device, like.dtype)


def control_image(pixels, batch, doubled):
    pixels = pixels if pixels.ndim == 4 else pixels[None]
    share, rest = divmod(batch, pixels.shape[0])
    if rest != 0:
        raise ValueError("batch is no multiple of the number of pictures")
    array = np.moveaxis(np.repeat(pixels, share, axis=0), 3, 1).astype(np.float64) / 255.0
    array = np.tile(array, (2, 1, 1, 1)) if doubled else array
    return torch.from_numpy(array.astype(np.float32))


def zero_conv_residuals(features, convs, c):
    out = []
    for feature, conv in zip(features, convs, strict=True):
        weight, bias = map(_array, conv)
        mixed = np.einsum("oi,bihw->bohw", weight[..., 0, 0], _array(feature))
        out.append(_tensor(c * mixed + c * bias.reshape(1, -1, 1, 1), feature))
    return out[: len(out) - 1], out[len(out) - 1]


def add_residuals(skips, h, block, down, mid):
    match (down, mid):
        case (None, None):
            return tuple(skips), block(h)
        case (None, _) | (_, None):
            raise ValueError("pass both or none")
    if len(skips) != len(down):
        raise ValueError(f"{len(skips)} skips, {len(down)} residuals")
    sums = tuple(_tensor(_array(s) + _array(r), s) for s, r in zip(skips, down, strict=True))
    middle = block(h)
    return sums, _tensor(_array(middle) + _array(mid), middle)


def controlnet_keep(n, low, high):
    i = np.arange(n)
    outside = np.logical_or(i / n < low, (i + 1) / n > high)
    return (1.0 - outside.astype(np.float64)).tolist()


def guess_mode_scales(n):
    return torch.from_numpy(np.geomspace(0.1, 1.0, n + 1).astype(np.float32))


def guess_mode_residuals(residuals):
    padded = []
    for residual in residuals:
        array = _array(residual)
        padded.append(_tensor(np.concatenate([np.zeros(array.shape), array]), residual))
    return tuple(padded)


def multi_control(pairs, weights):
    if not len(pairs) == len(weights):
        raise ValueError("weights and pairs differ in number")
    rows = [[*map(_array, down), _array(mid)] for down, mid in pairs]
    like = pairs[0][1]
    total = [
        _tensor(np.tensordot(np.asarray(weights, np.float64), np.stack(column), axes=1), like)
        for column in zip(*rows, strict=True)
    ]
    return total[:-1], total[-1]


def controlled_prediction(unet, controlnet, z, t, context, picture, c, guess):
    start = z.shape[0] // 2 if guess else 0
    for_skips, for_middle = controlnet(
        sample=z[start:],
        timestep=t,
        encoder_hidden_states=context[start:],
        controlnet_cond=picture,
        conditioning_scale=c,
        guess_mode=guess,
    )
    if guess:
        for_skips = guess_mode_residuals(for_skips)
        (for_middle,) = guess_mode_residuals([for_middle])
    return unet(
        sample=z,
        timestep=t,
        encoder_hidden_states=context,
        down_block_additional_residuals=for_skips,
        mid_block_additional_residual=for_middle,
    )
