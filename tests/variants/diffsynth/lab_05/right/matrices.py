"""Rows, places and heads by matrices and index arithmetic; numpy for what is no tensor."""

from functools import reduce

import numpy as np
import torch


def sdxl_conditions(outputs, clip_skip):
    depth = 1 + (0 if clip_skip is None else int(clip_skip))
    parts = [list(reversed(output["hidden_states"]))[depth] for output in outputs]
    pooled = {key: value for output in outputs for key, value in output.items()}["text_embeds"]
    return torch.dstack(parts), pooled


def sd3_conditions(clip_hidden, clip_pooled, t5_hidden, width, t5_length):
    wide = torch.dstack(list(clip_hidden))
    eye = torch.eye(wide.shape[2], width, dtype=wide.dtype)
    upper = wide @ eye
    if t5_hidden is None:
        t5_hidden = upper[:, :1].repeat(1, t5_length, 1).zero_()
    return torch.column_stack((upper, t5_hidden)), torch.column_stack(list(clip_pooled))


def texts_against(prompts, negative, force_zeros):
    if isinstance(negative, str):
        return [negative for _ in prompts]
    if negative is None:
        return [] if force_zeros else ["" for _ in prompts]
    texts = [text for text in negative]
    if len(texts) - len(prompts):
        raise ValueError("the lists are not of one length")
    return texts


def negative_conditions(prompts, negative, force_zeros, encode):
    against = texts_against(prompts, negative, force_zeros)
    mine = encode([text for text in prompts])
    other = encode(against) if against else [torch.full_like(part, 0.0) for part in mine]
    return (mine[0], mine[1]), (other[0], other[1])


def pack_valid(hidden, mask, drop, length):
    order = mask.cumsum(1)  # of a real token, which of its row it is
    kept = mask.bool() & (order > drop)
    number = kept.sum(1).tolist()
    length = max(number) if length is None else length
    if 0 in number or any(n > length for n in number):
        raise ValueError(f"{number} tokens in {length} places")
    rows, places = torch.nonzero(kept, as_tuple=True)
    at = order[rows, places] - drop - 1
    embeds = torch.zeros(hidden.shape[0], length, hidden.shape[2], dtype=hidden.dtype)
    packed = torch.zeros((hidden.shape[0], length), dtype=torch.long)
    embeds[rows, at] = hidden[rows, places]
    packed[rows, at] = 1
    return embeds, packed


def affine(weights, name, x):
    return torch.addmm(
        weights[f"{name}.bias"], x.flatten(0, 1), weights[f"{name}.weight"].mT
    ).unflatten(0, x.shape[:2])


def unit(x, weight):
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * weight / torch.hypot(size / x.shape[-1] ** 0.5, torch.tensor(1e-3))


def joint_attention(image, text, weights, heads, mask):
    b, n, width = image.shape
    m, size = text.shape[1], width // heads

    def stream(x, names, norms):
        q, k, v = (affine(weights, name, x).reshape(b, -1, heads, size) for name in names)
        return unit(q, weights[norms[0]]), unit(k, weights[norms[1]]), v

    own = stream(image, ("to_q", "to_k", "to_v"), ("norm_q.weight", "norm_k.weight"))
    added = stream(
        text,
        ("add_q_proj", "add_k_proj", "add_v_proj"),
        ("norm_added_q.weight", "norm_added_k.weight"),
    )
    q, k, v = (torch.hstack(pair) for pair in zip(own, added, strict=True))
    power = torch.einsum("bihd,bjhd->bhij", q, k).div(size**0.5)
    power = (power - power.amax(dim=-1, keepdim=True)).exp()
    if mask is not None:
        keys = torch.hstack((torch.ones(b, n), mask.to(power.dtype)))
        power = power * keys.view(b, 1, 1, n + m)
    out = torch.einsum("bhij,bjhd->bihd", power / power.sum(-1, keepdim=True), v)
    out = out.reshape(b, n + m, width)
    return affine(weights, "to_out.0", out.narrow(1, 0, n)), affine(
        weights, "to_add_out", out.narrow(1, n, m)
    )


def looked_up(query, context, key, value, heads):
    b, size = len(query), query.shape[-1] // heads
    k = torch.einsum("oc,bmc->bmo", key, context).reshape(b, -1, heads, size)
    v = torch.einsum("oc,bmc->bmo", value, context).reshape(b, -1, heads, size)
    q = query.reshape(b, -1, heads, size)
    share = torch.einsum("bnhd,bmhd->bnhm", q, k).mul(size**-0.5).softmax(3)
    return torch.einsum("bnhm,bmhd->bnhd", share, v).flatten(2, 3)


def image_prompt_attention(hidden, text, images, weights, heads, scales):
    if not len(images) == len(scales):
        raise ValueError("one scale for one image prompt")
    query = torch.einsum("oc,bnc->bno", weights["to_q.weight"], hidden)
    parts = [looked_up(query, text, weights["to_k.weight"], weights["to_v.weight"], heads)]
    for i, image in enumerate(images):
        layers = weights[f"to_k_ip.{i}.weight"], weights[f"to_v_ip.{i}.weight"]
        parts.append(torch.mul(looked_up(query, image, *layers, heads), scales[i]))
    return affine(weights, "to_out.0", reduce(torch.add, parts))


def batch_conditions(positive, negative, images_per_prompt):
    names = list(positive)
    sides = [side for side in (negative, positive) if side is not None]
    prompts = int(np.max([side[name].shape[0] for side in sides for name in names]))
    which = np.repeat(np.arange(prompts), images_per_prompt)

    def spread(value):
        return value[torch.from_numpy(which % value.shape[0])]

    return dict(
        (name, torch.vstack([spread(side[name]) for side in sides]))
        if positive[name].ndim > 1
        else (name, torch.hstack([spread(side[name]) for side in sides]))
        for name in names
    )


def edit_prediction(denoiser, tokens, grid, references):
    pictures = [(tokens, grid)] + [(part, sides) for part, sides in references]
    ids = []
    for number, (_, (height, width)) in enumerate(pictures):
        flat = np.arange(height * width)
        ids.append(np.stack([np.full_like(flat, number), flat // width, flat % width], axis=1))
    told = torch.from_numpy(np.concatenate(ids)).to(torch.float32)
    predicted = denoiser(torch.hstack([part for part, _ in pictures]), told)
    return predicted.narrow(1, 0, tokens.size(1))
