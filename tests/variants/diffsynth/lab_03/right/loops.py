"""With loops and single numbers; positions are counted up and pairs are turned one at a time."""

import math

import torch


def latent_frames(frames, ratio):
    if not (frames >= 1 and ratio >= 1):
        raise ValueError("at least one")
    return -(-frames // ratio)


def pixel_frames(latent, ratio):
    if not (latent >= 1 and ratio >= 1):
        raise ValueError("at least one")
    count = 1
    for _ in range(latent - 1):
        count += ratio
    return count


def valid_frames(frames, ratio):
    for n in (frames, ratio):
        if n <= 0:
            raise ValueError("at least one")
    whole, rest = divmod(frames, ratio)
    return frames if rest == 1 % ratio else ratio * whole + 1


def videos(latents, layout, batch):
    """A list of (F, C, H, W), one for each video."""
    if layout == "bcfhw":
        return [torch.stack(list(one.unbind(1))) for one in latents]
    if layout == "bfchw":
        return list(latents)
    if layout != "(bf)chw":
        raise ValueError(layout)
    length, rest = divmod(len(latents), batch)
    if rest:
        raise ValueError(batch)
    return [latents[i * length : (i + 1) * length] for i in range(batch)]


def relayout(latents, source, target, batch):
    parts = videos(latents, source, batch)
    if target == "bcfhw":
        return torch.stack([torch.stack(list(one), dim=1) for one in parts])
    if target == "bfchw":
        return torch.stack(parts)
    if target == "(bf)chw":
        return torch.cat(parts)
    raise ValueError(target)


def patchify(latents, patch, channels_last):
    for side, cut in zip(latents.shape[2:], patch, strict=True):
        if side % cut:
            raise ValueError(f"{side} by {cut}")
    (t, p, q), (_, _, frames, height, width) = patch, latents.shape
    tokens = []
    for f in range(0, frames, t):
        for h in range(0, height, p):
            for w in range(0, width, q):
                part = latents[:, :, f : f + t, h : h + p, w : w + q]
                tokens.append((part.movedim(1, -1) if channels_last else part).flatten(1))
    return torch.stack(tokens, dim=1)


def unpatchify(tokens, patch, grid, channels_last):
    (t, p, q), (f, h, w) = patch, grid
    channels, rest = divmod(tokens.shape[-1], t * p * q)
    if rest or tokens.shape[1] != f * h * w:
        raise ValueError("tokens")
    out = tokens.new_zeros(tokens.shape[0], channels, f * t, h * p, w * q)
    for n in range(f * h * w):
        i, j, k = n // (h * w), n // w % h, n % w
        part = tokens[:, n]
        if channels_last:
            part = part.reshape(-1, t, p, q, channels).movedim(-1, 1)
        else:
            part = part.reshape(-1, channels, t, p, q)
        out[:, :, i * t : i * t + t, j * p : j * p + p, k * q : k * q + q] = part
    return out


def grid_ids(frames, height, width, centred):
    top, left = (-(height - height // 2), -(width - width // 2)) if centred else (0, 0)
    ids = []
    for f in range(frames):
        for h in range(top, top + height):
            for w in range(left, left + width):
                ids.append((f, h, w))
    return torch.tensor(ids)


def rotary(ids, axes, theta):
    cos, sin = torch.empty(len(ids), sum(axes)), torch.empty(len(ids), sum(axes))
    for n, row in enumerate(ids.tolist()):
        column = 0
        for position, width in zip(row, axes, strict=True):
            for j in range(width // 2):
                angle = position / theta ** (2 * j / width)
                for _ in range(2):
                    cos[n, column], sin[n, column] = math.cos(angle), math.sin(angle)
                    column += 1
    return cos, sin


def apply_rotary(x, cos, sin, pairing):
    half = x.shape[-1] // 2
    if pairing not in ("adjacent", "halves"):
        raise ValueError(pairing)
    out = x.float().clone()
    for j in range(half):
        a, b = (2 * j, 2 * j + 1) if pairing == "adjacent" else (j, j + half)
        one, two = x[..., a].float(), x[..., b].float()
        out[..., a] = one * cos[:, a] - two * sin[:, a]
        out[..., b] = two * cos[:, b] + one * sin[:, b]
    return out.type_as(x)


def snap(height, width, multiple):
    if height < 1 or width < 1 or multiple < 1:
        raise ValueError("sides")
    return [height // multiple * multiple, width // multiple * multiple]


def fit_area(area, ratio, multiple):
    if area <= 0 or ratio <= 0 or multiple <= 0:
        raise ValueError("area")
    return [multiple * round(math.sqrt(x) / multiple) for x in (area / ratio, area * ratio)]


def frame_batches(frames, size, rest):
    if frames < 1 or size < 1:
        raise ValueError("frames")
    if rest == "last":
        lengths = []
    elif rest == "causal":
        lengths = [1]
    elif rest == "first":
        lengths = [frames if frames < size else size + frames % size]
    else:
        raise ValueError(rest)
    while sum(lengths) < frames:
        lengths.append(min(size, frames - sum(lengths)))
    pairs, at = [], 0
    for length in lengths:
        pairs.append([at, at + length])
        at += length
    return pairs


def transformer_flops(config, batch, tokens, text_tokens):
    heads, each = config["num_attention_heads"], config["attention_head_dim"]
    width = heads * each
    found = {"self": 0, "cross": 0, "ffn": 0}
    for _ in range(config["num_layers"] * batch):
        for part, other in (("self", tokens), ("cross", text_tokens)):
            for rows in (tokens, other, other, tokens):
                found[part] += 2 * rows * width * width
            for _ in range(heads):
                found[part] += 2 * (2 * tokens * other * each)
        found["ffn"] += 2 * (2 * tokens * width * config["ffn_dim"])
    return found
