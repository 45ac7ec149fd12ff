"""Lab 07 of diffsynth: written frame by frame, with lists of frames."""

import math

import torch


def causal_conv3d(x, weight, bias, cache, pad):
    if pad != "first" and pad != "zeros":
        raise ValueError(f"pad {pad}")
    need = weight.shape[2] - 1
    if cache is None:
        one = x[:, :, 0]
        cache = torch.stack([one if pad == "first" else 0 * one for _ in range(need)], 2)
    if cache.shape[2] != need:
        raise ValueError("the cache")
    everything = torch.cat((cache, x), 2)
    kh, kw = weight.shape[3:]
    padded = torch.nn.functional.pad(everything, (kw // 2, kw // 2, kh // 2, kh // 2))
    windows = padded.unfold(2, need + 1, 1).unfold(3, kh, 1).unfold(4, kw, 1)
    y = torch.einsum("bcfhwtij,dctij->bdfhw", windows, weight) + bias.view(-1, 1, 1, 1)
    return y, everything[:, :, everything.shape[2] - need :]


def encode_in_chunks(vae, video):
    size = vae.config.scale_factor_temporal
    groups, rest = divmod(video.shape[2] - 1, size)
    if rest or groups < 0:
        raise ValueError(f"{rest} frames too many")
    vae.clear_cache()
    made = vae.encoder(video[:, :, 0:1])
    for g in range(groups):
        more = vae.encoder(video[:, :, 1 + g * size : 1 + (g + 1) * size])
        made = torch.cat([made, more], 2)
    return vae.quant_conv(made)


def per_channel(values, like):
    return torch.tensor(values).float().to(like.device).reshape(1, -1, *[1] * (like.dim() - 2))


def _wan(z, s, back):
    mean, std = per_channel(s["latents_mean"], z), per_channel(s["latents_std"], z)
    return z * std + mean if back else (z - mean) * (1.0 / std)


def _ltx(z, s, back):
    f = s["scaling_factor"]
    mean, std = per_channel(s["latents_mean"], z), per_channel(s["latents_std"], z)
    return z / f * std + mean if back else f * ((z - mean) / std)


def _cogvideox(z, s, back):
    f = s["scaling_factor"]
    return z / f if bool(s["invert_scale_latents"]) != back else z * f


def _flux(z, s, back):
    if not back:
        if z.shape[2] % 2 or z.shape[3] % 2:
            raise ValueError("an odd side")
        z = torch.stack([z[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], 2).flatten(1, 2)
    mean = per_channel(s["bn_mean"], z)
    root = torch.sqrt(per_channel(s["bn_var"], z) + s["bn_eps"])
    if not back:
        return (z - mean) / root
    z = z * root + mean
    rows = [torch.stack([z[:, i::4], z[:, i + 1 :: 4]], -1).flatten(-2) for i in (0, 2)]
    return torch.stack(rows, -2).flatten(2, 3)


FAMILIES = {
    frozenset(["latents_mean", "latents_std"]): _wan,
    frozenset(["latents_mean", "latents_std", "scaling_factor"]): _ltx,
    frozenset(["scaling_factor", "invert_scale_latents"]): _cogvideox,
    frozenset(["bn_mean", "bn_var", "bn_eps"]): _flux,
}


def _by_family(latents, stats, back):
    family = FAMILIES.get(frozenset(stats))
    if family is None:
        raise ValueError("no such family")
    return family(latents.double(), stats, back).to(latents.dtype)


def to_model(latents, stats):
    return _by_family(latents, stats, False)


def to_vae(latents, stats):
    return _by_family(latents, stats, True)


def temporal_tiled_decode(decode, latents, tile, stride, ratio):
    if not (stride >= 1 and tile >= stride):
        raise ValueError("stride")
    count = latents.shape[2]
    if count <= tile:
        return decode(latents)
    film, tail = [], []
    for start in range(0, count, stride):
        frames = list(decode(latents[:, :, start : start + 1 + tile]).unbind(2))
        if start:
            frames = frames[1:]
            n = min(len(tail), len(frames), (tile - stride) * ratio)
            for i, old in enumerate(tail[len(tail) - n :]):
                frames[i] = torch.lerp(old, frames[i], i / n)
        film += frames[: stride * ratio + (start == 0)]
        tail = frames
    return torch.stack(film[: (count - 1) * ratio + 1], 2)


def channel_rms_norm(x, gamma, bias):
    wide = x.double()
    lengths = torch.sqrt((wide * wide).sum(1, keepdim=True))
    y = wide / torch.clamp_min(lengths, 1e-12) * math.sqrt(x.shape[1]) * gamma.double()
    if bias is not None:
        y = y + bias.double()
    return y.to(x.dtype)


def decode_stream(vae, latents, sink):
    vae.clear_cache()
    ready, total, k = vae.post_quant_conv(latents), 0, 0
    while k < ready.shape[2]:
        group = vae.decoder(ready[:, :, [k]], k < 1).permute(0, 2, 3, 4, 1)
        sink((127.5 * (1 + group.clip(-1.0, 1.0))).round().to(dtype=torch.uint8).contiguous())
        total, k = total + group.shape[1], k + 1
    vae.clear_cache()
    return total


def average_down(x, out_channels, factor_t, factor_s):
    missing = (factor_t - x.shape[2] % factor_t) % factor_t
    x = torch.cat([x.new_zeros(*x.shape[:2], missing, *x.shape[3:]), x], 2)
    places = [
        x[:, c, t::factor_t, i::factor_s, j::factor_s]
        for c in range(x.shape[1])
        for t in range(factor_t)
        for i in range(factor_s)
        for j in range(factor_s)
    ]
    if len(places) % out_channels:
        raise ValueError("channels")
    size = len(places) // out_channels
    groups = [places[g : g + size] for g in range(0, len(places), size)]
    return torch.stack([torch.stack(group).mean(0) for group in groups], 1)


def duplicate_up(x, out_channels, factor_t, factor_s, first):
    wanted = out_channels * factor_t * factor_s**2
    if wanted % x.shape[1]:
        raise ValueError("channels")
    times, (b, _, f, h, w) = wanted // x.shape[1], x.shape
    y = x.new_empty(b, out_channels, f * factor_t, h * factor_s, w * factor_s)
    for k in range(wanted):
        rest, j = divmod(k, factor_s)
        rest, i = divmod(rest, factor_s)
        c, t = divmod(rest, factor_t)
        y[:, c, t::factor_t, i::factor_s, j::factor_s] = x[:, k // times]
    return y[:, :, factor_t - 1 :] if first else y
