"""With einsum, complex numbers and indices: what is moved is numbered, and the numbers are used."""

from math import prod

import torch


def positive(*numbers):
    if any(n <= 0 for n in numbers):
        raise ValueError(f"{numbers} are not all positive")


def latent_frames(frames, ratio):
    positive(frames, ratio)
    return 1 + (frames - 1) // ratio


def pixel_frames(latent, ratio):
    positive(latent, ratio)
    return latent * ratio - ratio + 1


def valid_frames(frames, ratio):
    positive(frames, ratio)
    groups = range(0, frames + ratio, ratio)
    return next((frames for g in groups if g + 1 == frames), frames - frames % ratio + 1)


WAYS = {"bcfhw": "bcfhw->bfchw", "bfchw": "bfchw->bfchw"}
BACK = {"bcfhw": "bfchw->bcfhw", "bfchw": "bfchw->bfchw", "(bf)chw": "bfchw->bfchw"}


def relayout(latents, source, target, batch):
    if source == "(bf)chw" and target in BACK:
        if latents.size(0) % batch != 0:
            raise ValueError("these are not whole videos")
        video = torch.stack(latents.chunk(batch))
    elif source in WAYS and target in BACK:
        video = torch.einsum(WAYS[source], latents)
    else:
        raise ValueError(f"{source} to {target}")
    video = torch.einsum(BACK[target], video)
    return torch.cat(tuple(video)).contiguous() if target == "(bf)chw" else video


def places(grid, patch, channels, channels_last):
    """The flat place in one video's latents of each number of each token."""
    sides = [n * k for n, k in zip(grid, patch, strict=True)]
    flat = torch.arange(channels * prod(sides)).view(1, channels, *sides)
    for axis, cut in zip((2, 3, 4), patch, strict=True):
        flat = flat.unfold(axis, cut, cut)  # the patch axes go to the end
    sums = "bcfhwtpq->bfhwtpqc" if channels_last else "bcfhwtpq->bfhwctpq"
    return torch.einsum(sums, flat).reshape(prod(grid), -1)


def patchify(latents, patch, channels_last):
    batch, channels, *sides = latents.shape
    if any(n % k for n, k in zip(sides, patch, strict=True)):
        raise ValueError("the patches do not fill the latents")
    grid = [n // k for n, k in zip(sides, patch, strict=True)]
    return latents.reshape(batch, -1)[:, places(grid, patch, channels, channels_last)]


def unpatchify(tokens, patch, grid, channels_last):
    batch, count, features = tokens.shape
    channels = features // prod(patch)
    if count != prod(grid) or channels * prod(patch) != features:
        raise ValueError("the tokens do not fill the grid")
    where = places(grid, patch, channels, channels_last).flatten()
    flat = torch.empty(batch, count * features, dtype=tokens.dtype)
    flat[:, where] = tokens.flatten(1)
    return flat.view(batch, channels, *(n * k for n, k in zip(grid, patch, strict=True)))


def grid_ids(frames, height, width, centred):
    starts = [0, (height // 2) - height, (width // 2) - width] if centred else [0, 0, 0]
    number = torch.arange(frames * height * width)
    split = [number // (height * width), number // width % height, number % width]
    return torch.stack([s + n for s, n in zip(starts, split, strict=True)], 1)


def rotary(ids, axes, theta):
    waves = []
    for place, width in zip(ids.T, axes, strict=True):
        speeds = torch.tensor([theta ** (-2 * j / width) for j in range(width // 2)])
        waves.append(torch.outer(place.float(), speeds))  # float32: positions are small
    turns = torch.polar(torch.ones(1), torch.cat(waves, 1))
    turns = torch.stack([turns, turns], -1).flatten(1)
    return turns.real.clone(), turns.imag.clone()


def apply_rotary(x, cos, sin, pairing):
    kind = {"adjacent": 0, "halves": 1}.get(pairing)
    if kind == 0:
        split, c, s = x.float().unflatten(-1, (-1, 2)), cos[:, ::2], sin[:, ::2]
    elif kind == 1:
        half = x.shape[-1] // 2
        split = x.float().unflatten(-1, (2, -1)).transpose(-1, -2)
        c, s = cos[:, :half], sin[:, :half]
    else:
        raise ValueError(pairing)
    turned = torch.view_as_real(torch.view_as_complex(split.contiguous()) * torch.complex(c, s))
    turned = turned if kind == 0 else turned.transpose(-1, -2)
    return turned.flatten(-2).to(dtype=x.dtype)


def snap(height, width, multiple):
    positive(height, width, multiple)
    return tuple(
        next(n for n in range(side, -1, -1) if n % multiple == 0) for side in (height, width)
    )


def fit_area(area, ratio, multiple):
    positive(area, ratio, multiple)
    width = (area * ratio) ** 0.5
    exact = torch.tensor([width / ratio, width], dtype=torch.float64) / multiple
    return tuple(int(n) * multiple for n in exact.round())


def frame_batches(frames, size, rest):
    positive(frames, size)
    head = {"first": size + frames % size, "causal": 1, "last": size}
    if rest not in head:
        raise ValueError(rest)
    cuts = [0, *range(head[rest], frames, size), frames]
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def transformer_flops(config, batch, tokens, text_tokens):
    width = config["num_attention_heads"] * config["attention_head_dim"]
    t, m, w = tokens, text_tokens, width
    products = {
        "self": [(t, w, w)] * 4 + [(t, w, t), (t, t, w)],
        "cross": [(t, w, w)] * 2 + [(m, w, w)] * 2 + [(t, w, m), (t, m, w)],
        "ffn": [(t, w, config["ffn_dim"]), (t, config["ffn_dim"], w)],
    }
    times = 2 * batch * config["num_layers"]
    return {part: times * sum(map(prod, sizes)) for part, sizes in products.items()}
