"""Lab 07 of diffsynth: by torch's own layers, and what comes back as views and tuples."""

import numpy as np
import torch
import torch.nn as nn


def causal_conv3d(x, weight, bias, cache, pad):
    paddings = {"zeros": "constant", "first": "replicate"}
    if pad not in paddings:
        raise ValueError("pad: zeros, first")
    kt, kh, kw = weight.shape[2:]
    if cache is None:
        seen = nn.functional.pad(x, (0, 0, 0, 0, kt - 1, 0), mode=paddings[pad])
    else:
        if len(cache[0, 0]) != kt - 1:
            raise ValueError("cache")
        seen = torch.concat([cache, x], dim=-3)
    layer = nn.Conv3d(
        weight.shape[1], weight.shape[0], (kt, kh, kw), padding=(0, (kh - 1) // 2, (kw - 1) // 2)
    )
    layer.load_state_dict({"weight": weight, "bias": bias})
    return [layer(seen).detach(), seen[:, :, 1 - kt :]]


def encode_in_chunks(vae, video):
    r = int(vae.config.scale_factor_temporal)
    if video.shape[2] not in range(1, video.shape[2] + 1, r):
        raise ValueError("frames")
    vae.clear_cache()
    head, tail = video[:, :, :1], video[:, :, 1:]
    chunks = [head] + (list(torch.split(tail, r, dim=2)) if tail.shape[2] else [])
    encoded = [vae.encoder(chunk) for chunk in chunks]
    vae.clear_cache()
    return vae.quant_conv(torch.concat(encoded, 2))


def per_channel(values, like):
    return torch.tensor(values).float().to(like.device).reshape(1, -1, *[1] * (like.dim() - 2))


def to_model(latents, stats):
    z = latents.float()
    names = tuple(sorted(stats))
    if names == ("bn_eps", "bn_mean", "bn_var"):
        unshuffled = nn.PixelUnshuffle(2)
        if any(side % 2 for side in z.shape[-2:]):
            raise ValueError("sides")
        mean, var = torch.tensor(stats["bn_mean"]), torch.tensor(stats["bn_var"])
        z = nn.functional.batch_norm(unshuffled(z), mean, var, eps=stats["bn_eps"])
    elif names == ("invert_scale_latents", "scaling_factor"):
        factor = stats["scaling_factor"]
        z = z.mul(1 / factor if stats["invert_scale_latents"] else factor)
    elif names in [
        ("latents_mean", "latents_std"),
        ("latents_mean", "latents_std", "scaling_factor"),
    ]:
        moved = torch.sub(z, per_channel(stats["latents_mean"], z))
        z = torch.div(moved, per_channel(stats["latents_std"], z))
        if len(names) == 3:
            z = z * stats["scaling_factor"]
    else:
        raise ValueError("names")
    return z.to(dtype=latents.dtype)


def to_vae(latents, stats):
    names = tuple(sorted(stats))
    z = latents.float()
    if names == ("bn_eps", "bn_mean", "bn_var"):
        root = torch.rsqrt(per_channel(stats["bn_var"], z) + stats["bn_eps"])
        z = nn.PixelShuffle(2)(z / root + per_channel(stats["bn_mean"], z))
    elif names == ("invert_scale_latents", "scaling_factor"):
        factor = stats["scaling_factor"]
        z = z.mul(factor if stats["invert_scale_latents"] else 1 / factor)
    elif names[:2] == ("latents_mean", "latents_std") and names[2:] in ((), ("scaling_factor",)):
        if names[2:]:
            z = z / stats["scaling_factor"]
        z = torch.addcmul(
            per_channel(stats["latents_mean"], z), z, per_channel(stats["latents_std"], z)
        )
    else:
        raise ValueError("names")
    return z.to(dtype=latents.dtype)


def temporal_tiled_decode(decode, latents, tile, stride, ratio):
    if stride not in range(1, tile + 1):
        raise ValueError("a stride from 1 to tile")
    total = latents.shape[2]
    if total <= tile:
        return decode(latents)
    film = None
    for start in range(0, total, stride):
        piece = decode(latents[:, :, start : min(start + tile + 1, total)])
        if film is None:
            film = piece
            continue
        # What there is already reaches beyond this tile's beginning: fade there, then go on.
        begin = start * ratio + 1
        common = min(film.shape[2] - begin, piece.shape[2] - 1, ratio * (tile - stride))
        ramp = torch.as_tensor(np.arange(common) / max(common, 1), dtype=piece.dtype)
        old, new = film[:, :, begin : begin + common], piece[:, :, 1 : 1 + common]
        mixed = torch.lerp(old, new, ramp[:, None, None])
        film = torch.concat([film[:, :, :begin], mixed, piece[:, :, 1 + common :]], 2)
    return film[:, :, : 1 + ratio * (total - 1)]


def channel_rms_norm(x, gamma, bias):
    lengths = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float32)
    y = torch.div(x.float(), torch.maximum(lengths, torch.tensor(1e-12)))
    y = torch.mul(y, x.shape[1] ** 0.5) * gamma.float()
    return y.to(x.dtype) if bias is None else (y + bias.float()).to(x.dtype)


def decode_stream(vae, latents, sink):
    vae.clear_cache()

    def group(index):
        z = vae.post_quant_conv(latents.narrow(2, index, 1))
        values = torch.clamp(vae.decoder(z, index == 0), min=-1, max=1).numpy()
        bytes_ = np.rint((values.astype(np.float64) + 1) * 127.5).astype(np.uint8)
        pictures = torch.from_numpy(np.ascontiguousarray(bytes_.transpose(0, 2, 3, 4, 1)))
        sink(pictures)
        return pictures.shape[1]

    return sum(map(group, range(latents.shape[2])))


def average_down(x, out_channels, factor_t, factor_s):
    b, c, f, h, w = x.shape
    t, s = factor_t, factor_s
    if (c * t * s * s) % out_channels != 0:
        raise ValueError("out_channels")
    zeros = x.new_zeros(b, c, (t - f % t) % t, h, w)
    whole = torch.concat((zeros, x), 2)
    parts = whole.reshape(b, c, whole.shape[2] // t, t, h // s, s, w // s, s)
    parts = torch.einsum("bcftipjq->bctpqfij", parts)
    return parts.reshape(b, out_channels, -1, whole.shape[2] // t, h // s, w // s).mean(dim=2)


def duplicate_up(x, out_channels, factor_t, factor_s, first):
    b, c, f, h, w = x.shape
    t, s = factor_t, factor_s
    if (out_channels * t * s * s) % c:
        raise ValueError("out_channels")
    times = out_channels * t * s * s // c
    wide = x.unsqueeze(2).expand(b, c, times, f, h, w)
    wide = wide.reshape(b, out_channels, t, s * s, f, h, w).transpose(2, 3).flatten(1, 2)
    # Time first: (out · s², t, f) to frames, then a shuffle of pixels in each frame.
    wide = wide.transpose(2, 3).reshape(b, out_channels * s * s, f * t, h, w)
    frames = [nn.functional.pixel_shuffle(frame, s) for frame in wide.unbind(2)]
    return torch.stack(frames[t - 1 :] if first else frames, 2)
