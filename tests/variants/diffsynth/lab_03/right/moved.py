"""With torch's own tools: movedim and swapaxes, fold by fold, cartesian products and rounding."""

import math
from itertools import pairwise

import torch
from torch import Tensor


class Time:
    """Frames at a ratio, checked once."""

    def __init__(self, count: int, ratio: int) -> None:
        if count < 1:
            raise ValueError("there is no such clip")
        if ratio < 1:
            raise ValueError("there is no such ratio")
        self.count, self.ratio = count, ratio

    @property
    def fits(self) -> bool:
        return self.count in range(1, self.count + 1, self.ratio)


def latent_frames(frames: int, ratio: int) -> int:
    time = Time(frames, ratio)
    return len(range(0, time.count, time.ratio))


def pixel_frames(latent: int, ratio: int) -> int:
    time = Time(latent, ratio)
    return list(range(1, 1 + time.ratio * time.count, time.ratio))[-1]


def valid_frames(frames: int, ratio: int) -> int:
    time = Time(frames, ratio)
    return time.count if time.fits else math.floor(time.count / time.ratio) * time.ratio + 1


KNOWN = frozenset({"bcfhw", "bfchw", "(bf)chw"})


def relayout(latents: Tensor, source: str, target: str, batch: int) -> Tensor:
    if not {source, target} <= KNOWN:
        raise ValueError(f"no layout: {source} or {target}")
    if source == "(bf)chw":
        if batch <= 0 or len(latents) / batch != len(latents) // batch:
            raise ValueError(f"{batch} does not divide {len(latents)}")
        latents = latents.view(batch, len(latents) // batch, *latents.shape[1:])
        source = "bfchw"
    if target == "(bf)chw":
        if source == "bcfhw":
            latents = latents.swapaxes(1, 2)
        return latents.reshape(-1, *latents.shape[2:])
    return latents.clone() if source == target else latents.movedim(2, 1)


def patchify(latents: Tensor, patch: tuple[int, int, int], channels_last: bool) -> Tensor:
    out = latents
    for axis, cut in enumerate(patch):
        where = 2 + 2 * axis
        if out.shape[where] % cut:
            raise ValueError(f"axis {axis} by {cut}")
        out = out.unflatten(where, (out.shape[where] // cut, cut))
    out = out.movedim((2, 4, 6), (1, 2, 3))  # B, f, h, w, C, t, p, q
    if channels_last:
        out = out.movedim(4, -1)
    return out.flatten(start_dim=4).flatten(start_dim=1, end_dim=3)


def unpatchify(tokens: Tensor, patch: tuple, grid: tuple, channels_last: bool) -> Tensor:
    numbers = math.prod(patch)
    if math.prod(grid) != tokens.size(1) or tokens.size(2) % numbers != 0:
        raise ValueError("tokens that do not fit")
    channels = tokens.size(2) // numbers
    out = tokens.unflatten(1, tuple(grid))
    if channels_last:
        out = out.unflatten(-1, (*patch, channels)).movedim(-1, 4)
    else:
        out = out.unflatten(-1, (channels, *patch))
    out = out.movedim(4, 1)  # B, C, f, h, w, t, p, q
    out = out.movedim((5, 6, 7), (3, 5, 7))
    return out.reshape(len(tokens), channels, *(n * k for n, k in zip(grid, patch, strict=True)))


def grid_ids(frames: int, height: int, width: int, centred: bool) -> Tensor:
    def side(n: int) -> Tensor:
        return torch.arange(-((n + 1) // 2), n // 2) if centred else torch.arange(n)

    return torch.cartesian_prod(torch.arange(frames), side(height), side(width))


def rotary(ids: Tensor, axes: tuple[int, ...], theta: float) -> tuple[Tensor, Tensor]:
    logs = [torch.arange(w, dtype=torch.float64) // 2 * 2 / w * math.log(theta) for w in axes]
    column = torch.cat([torch.full((w,), k) for k, w in enumerate(axes)])
    angles = ids.double()[:, column] * torch.exp(-torch.cat(logs))
    return torch.cos(angles).to(torch.float32), torch.sin(angles).to(torch.float32)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    d = x.size(-1)
    match pairing:
        case "adjacent":
            partner = torch.arange(d).view(-1, 2).flip(1).flatten()
            sign = torch.tensor([-1.0, 1.0]).repeat(d // 2)
        case "halves":
            partner = torch.arange(d).roll(d // 2)
            sign = torch.tensor([-1.0, 1.0]).repeat_interleave(d // 2)
        case _:
            raise ValueError(f"unknown pairing {pairing}")
    y = x.to(torch.float32)
    return torch.addcmul(y * cos, y[..., partner] * sign, sin).to(x.dtype)


def snap(height: int, width: int, multiple: int) -> tuple[int, int]:
    if any(n < 1 for n in (height, width, multiple)):
        raise ValueError("sides are positive")
    return divmod(height, multiple)[0] * multiple, divmod(width, multiple)[0] * multiple


def fit_area(area: float, ratio: float, multiple: int) -> tuple[int, int]:
    if not all(n > 0 for n in (area, ratio, multiple)):
        raise ValueError("sizes are positive")
    tall, wide = math.sqrt(area / ratio), math.sqrt(area) * math.sqrt(ratio)
    if ratio == 1:
        wide = tall
    return round(tall / multiple) * multiple, round(wide / multiple) * multiple


def frame_batches(frames: int, size: int, rest: str) -> list[tuple[int, int]]:
    if min(frames, size) < 1:
        raise ValueError("no frames")
    match rest:
        case "first":
            stops = list(range(frames, size - 1, -size))[::-1] or [frames]
        case "causal":
            stops = [1, *range(1 + size, frames, size)]
        case "last":
            stops = list(range(size, frames, size))
        case _:
            raise ValueError(rest)
    return list(pairwise(sorted({0, *stops, frames})))


def transformer_flops(config: dict, batch: int, tokens: int, text_tokens: int) -> dict[str, int]:
    d = config["attention_head_dim"] * config["num_attention_heads"]
    per_token = {"self": 8 * d * d + 4 * d * tokens, "ffn": 4 * d * config["ffn_dim"]}
    per_token["cross"] = 4 * d * (d + text_tokens)
    whole = {part: tokens * count for part, count in per_token.items()}
    whole["cross"] += text_tokens * 4 * d * d
    return {part: count * batch * config["num_layers"] for part, count in whole.items()}
