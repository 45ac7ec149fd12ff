"""Lab 07 of diffsynth: convolutions by taps, constants as pairs, tiles into one buffer."""

import torch
from torch.nn import functional as fn


def causal_conv3d(x, weight, bias, cache, pad):
    kt = weight.size(2)
    if pad == "zeros":
        filler = x.new_zeros(x.size(0), x.size(1), 1, x.size(3), x.size(4))
    elif pad == "first":
        filler = x.narrow(2, 0, 1)
    else:
        raise ValueError(pad)
    if cache is not None and cache.size(2) != kt - 1:
        raise ValueError("length of the cache")
    past = [filler] * (kt - 1) if cache is None else list(cache.split(1, 2))
    frames = past + list(x.split(1, 2))
    made = []
    for i in range(x.size(2)):
        total = 0
        for k in range(kt):
            total = total + fn.conv2d(
                frames[i + k].squeeze(2),
                weight.select(2, k),
                padding=(weight.size(3) // 2, weight.size(4) // 2),
            )
        made.append(total + bias[:, None, None])
    return torch.stack(made, 2), torch.cat(frames[len(frames) - kt + 1 :], 2)


def encode_in_chunks(vae, video):
    r, n = vae.config.scale_factor_temporal, video.size(2)
    if n % r != 1 % r:
        raise ValueError(n)
    vae.clear_cache()
    sizes = [1] + [r] * ((n - 1) // r)
    return torch.cat([vae.quant_conv(vae.encoder(p)) for p in video.split(sizes, 2)], 2)


def per_channel(values, like):
    return torch.tensor(values).float().to(like.device).reshape(1, -1, *[1] * (like.dim() - 2))


def _pair(stats, like):
    """(mean, size): what is in is (z - mean) / size."""
    match sorted(stats):
        case ["latents_mean", "latents_std"]:
            return per_channel(stats["latents_mean"], like), per_channel(stats["latents_std"], like)
        case ["latents_mean", "latents_std", "scaling_factor"]:
            size = per_channel(stats["latents_std"], like) / stats["scaling_factor"]
            return per_channel(stats["latents_mean"], like), size
        case ["bn_eps", "bn_mean", "bn_var"]:
            size = (per_channel(stats["bn_var"], like) + stats["bn_eps"]) ** 0.5
            return per_channel(stats["bn_mean"], like), size
        case ["invert_scale_latents", "scaling_factor"]:
            inverted = stats["invert_scale_latents"]
            return 0.0, stats["scaling_factor"] ** (1 if inverted else -1)
    raise ValueError(sorted(stats))


def to_model(latents, stats):
    wide = latents.to(torch.float32)
    if "bn_mean" in stats:
        b, c, h, w = wide.shape
        if h % 2 or w % 2:
            raise ValueError("odd")
        wide = wide.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4)
        wide = wide.reshape(b, 4 * c, h // 2, w // 2)
    mean, size = _pair(stats, wide)
    return ((wide - mean) / size).type_as(latents)


def to_vae(latents, stats):
    wide = latents.to(torch.float32)
    mean, size = _pair(stats, wide)
    wide = wide * size + mean
    if "bn_mean" in stats:
        b, c, h, w = wide.shape
        wide = wide.view(b, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3)
        wide = wide.reshape(b, c // 4, 2 * h, 2 * w)
    return wide.type_as(latents)


def temporal_tiled_decode(decode, latents, tile, stride, ratio):
    if stride < 1 or stride > tile:
        raise ValueError(stride)
    f = latents.size(2)
    if f <= tile:
        return decode(latents)
    rows = []
    for i in range((f + stride - 1) // stride):
        decoded = decode(latents[:, :, i * stride : i * stride + tile + 1]).clone()
        rows.append(decoded if i == 0 else decoded[:, :, 1:])
    for a, b in zip(rows, rows[1:]):
        n = min(a.size(2), b.size(2), ratio * (tile - stride))
        for j in range(n):
            left = a[:, :, a.size(2) - n + j]
            b[:, :, j] = left + (b[:, :, j] - left) * (j / n)
    step = stride * ratio
    out = [rows[0][:, :, : step + 1]] + [row[:, :, :step] for row in rows[1:]]
    return torch.cat(out, 2).narrow(2, 0, ratio * (f - 1) + 1)


def channel_rms_norm(x, gamma, bias):
    unit = fn.normalize(x.to(torch.float32), dim=1).type_as(x)
    return unit * (x.size(1) ** 0.5) * gamma + (0 if bias is None else bias)


def decode_stream(vae, latents, sink):
    vae.clear_cache()
    handed = 0
    for i, one in enumerate(latents.split(1, 2)):
        pixels = vae.decoder(vae.post_quant_conv(one), not i)
        pixels = (pixels * 0.5 + 0.5).clamp(0, 1).mul(255).round().byte()
        sink(torch.movedim(pixels, 1, -1))
        handed += pixels.size(2)
    return handed


def average_down(x, out_channels, factor_t, factor_s):
    c, size = x.size(1), factor_t * factor_s * factor_s
    if c * size % out_channels:
        raise ValueError(out_channels)
    short = -x.size(2) % factor_t
    if short:
        x = torch.cat([torch.zeros_like(x[:, :, :1])] * short + [x], 2)
    group = c * size // out_channels
    weight = torch.zeros(out_channels, c * size, dtype=x.dtype)
    for k in range(c * size):
        weight[k // group, k] = 1 / group
    kernel = weight.view(out_channels, c, factor_t, factor_s, factor_s)
    return fn.conv3d(x, kernel, stride=(factor_t, factor_s, factor_s))


def duplicate_up(x, out_channels, factor_t, factor_s, first):
    c, many = x.size(1), out_channels * factor_t * factor_s * factor_s
    if many % c:
        raise ValueError(out_channels)
    source = torch.arange(many) // (many // c)
    b, _, f, h, w = x.shape
    y = x[:, source].view(b, out_channels, factor_t, factor_s, factor_s, f, h, w)
    y = torch.einsum("bctpqfhw->bcfthpwq", y)
    y = y.reshape(b, out_channels, f * factor_t, h * factor_s, w * factor_s)
    return y[:, :, (factor_t - 1) * bool(first) :]
