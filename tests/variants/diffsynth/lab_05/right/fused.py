"""With torch's own tools: fused attention, rms_norm, gather by a stable sort, grids of indices."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def sdxl_conditions(outputs: list, clip_skip: int | None) -> tuple[Tensor, Tensor]:
    place = -2 if clip_skip is None else -2 - clip_skip
    chosen = [dict(output)["hidden_states"][place] for output in outputs]
    [pooled] = [output["text_embeds"] for output in outputs if "pooler_output" not in output]
    return torch.concat(chosen, dim=2), pooled


def sd3_conditions(
    clip_hidden: list, clip_pooled: list, t5_hidden: Tensor | None, width: int, t5_length: int
) -> tuple[Tensor, Tensor]:
    first, second = clip_hidden
    missing = width - first.size(-1) - second.size(-1)
    filler = first.new_zeros(first.size(0), first.size(1), missing)
    upper = torch.concat((first, second, filler), dim=-1)
    lower = torch.zeros_like(upper[:, :1]).expand(-1, t5_length, -1)
    if t5_hidden is not None:
        lower = t5_hidden
    return torch.concat((upper, lower), dim=1), torch.hstack(tuple(clip_pooled))


def negative_conditions(prompts: list, negative: Any, force_zeros: bool, encode: Callable) -> tuple:
    match negative:
        case None if force_zeros:
            given = tuple(encode(list(prompts)))
            return given, tuple(map(torch.zeros_like, given))
        case None:
            against = [""] * len(prompts)
        case str():
            against = len(prompts) * [negative]
        case _ if len(negative) == len(prompts):
            against = list(negative)
        case _:
            raise ValueError(f"{len(negative)} texts against {len(prompts)}")
    other = tuple(encode(against))
    return tuple(encode(list(prompts))), other


def pack_valid(
    hidden: Tensor, mask: Tensor, drop: int, length: int | None
) -> tuple[Tensor, Tensor]:
    left = mask.sum(dim=1) - drop
    size = int(left.max()) if length is None else length
    if int(left.min()) <= 0 or int(left.max()) > size:
        raise ValueError(f"{left.tolist()} tokens for {size} places")
    front = torch.sort(mask, dim=1, descending=True, stable=True).indices[:, drop:]
    moved = hidden.gather(1, front[..., None].expand(-1, -1, hidden.size(2)))
    moved = F.pad(moved, (0, 0, 0, max(size - moved.size(1), 0)))[:, :size]
    real = torch.arange(size)[None] < left[:, None]
    return moved.masked_fill(~real[..., None], 0), real.to(torch.int64)


def split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).movedim(2, 1)


def merge(x: Tensor) -> Tensor:
    return x.movedim(1, 2).reshape(x.size(0), x.size(2), -1)


def joint_attention(
    image: Tensor, text: Tensor, weights: dict, heads: int, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    def project(name: str, x: Tensor, norm: str = "") -> Tensor:
        y = split(F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"]), heads)
        return F.rms_norm(y, y.shape[-1:], weights[f"{norm}.weight"], 1e-6) if norm else y

    m = text.size(1)
    q = torch.concat(
        (project("add_q_proj", text, "norm_added_q"), project("to_q", image, "norm_q")), dim=-2
    )
    k = torch.concat(
        (project("add_k_proj", text, "norm_added_k"), project("to_k", image, "norm_k")), dim=-2
    )
    v = torch.concat((project("add_v_proj", text), project("to_v", image)), dim=-2)
    bias = None
    if mask is not None:
        bias = F.pad(mask, (0, image.size(1)), value=True)[:, None, None, :]
    together = merge(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))
    words, picture = together.split((m, image.size(1)), dim=1)
    return (
        F.linear(picture, weights["to_out.0.weight"], weights["to_out.0.bias"]),
        F.linear(words, weights["to_add_out.weight"], weights["to_add_out.bias"]),
    )


def image_prompt_attention(
    hidden: Tensor, text: Tensor, images: list, weights: dict, heads: int, scales: list
) -> Tensor:
    adapters = range(len(images))
    if len(adapters) < len(scales) or len(adapters) > len(scales):
        raise ValueError("image prompts and scales do not match")
    asks = split(F.linear(hidden, weights["to_q.weight"]), heads)
    contexts = [text, *images]
    layers = [("to_k", "to_v"), *((f"to_k_ip.{i}", f"to_v_ip.{i}") for i in adapters)]
    gathered = torch.stack(
        [
            F.scaled_dot_product_attention(
                asks,
                split(F.linear(context, weights[f"{key}.weight"]), heads),
                split(F.linear(context, weights[f"{value}.weight"]), heads),
            )
            for context, (key, value) in zip(contexts, layers, strict=True)
        ]
    )
    strengths = torch.tensor([1.0, *scales])
    summed = torch.tensordot(strengths, gathered, dims=1)
    return F.linear(merge(summed), weights["to_out.0.weight"], weights["to_out.0.bias"])


def batch_conditions(positive: dict, negative: dict | None, images_per_prompt: int) -> dict:
    every = [*positive.values(), *(negative or {}).values()]
    count = sorted(len(value) for value in every)[-1]
    row = torch.arange(count * images_per_prompt) // images_per_prompt
    sides = (positive,) if negative is None else (negative, positive)
    return {
        name: torch.concat([side[name][row.clamp(max=len(side[name]) - 1)] for side in sides])
        for name in sides[-1]
    }


def edit_prediction(denoiser: Callable, tokens: Tensor, grid: tuple, references: list) -> Tensor:
    shown = [tokens, *(reference[0] for reference in references)]
    grids = [grid, *(reference[1] for reference in references)]
    placed = [
        F.pad(torch.ones(*sides).nonzero(), (1, 0), value=number)
        for number, sides in enumerate(grids)
    ]
    lengths = [part.size(1) for part in shown]
    said = denoiser(torch.concat(shown, dim=1), torch.vstack(placed).float())
    return said.split(lengths, dim=1)[0]
