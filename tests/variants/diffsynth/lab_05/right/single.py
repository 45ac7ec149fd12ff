"""One row, one head and one token at a time; lists that are stacked at the end."""

import math

import torch


def sdxl_conditions(outputs, clip_skip):
    back = 0 if clip_skip is None else clip_skip
    wide = None
    for output in outputs:
        states = output["hidden_states"]
        taken = states[len(states) - 2 - back]
        wide = taken if wide is None else torch.cat((wide, taken), 2)
        if output.get("text_embeds") is not None:
            vector = output["text_embeds"]
    return wide, vector


def sd3_conditions(clip_hidden, clip_pooled, t5_hidden, width, t5_length):
    one, two = clip_hidden
    rows, length, _ = one.shape
    further = t5_length if t5_hidden is None else t5_hidden.shape[1]
    whole = torch.zeros(rows, length + further, width, dtype=one.dtype)
    whole[:, :length, : one.shape[2]] = one
    whole[:, :length, one.shape[2] : one.shape[2] + two.shape[2]] = two
    if t5_hidden is not None:
        whole[:, length:] = t5_hidden
    return whole, torch.cat((clip_pooled[0], clip_pooled[1]), 1)


def negative_conditions(prompts, negative, force_zeros, encode):
    count = len(prompts)
    if negative is not None and not isinstance(negative, str) and len(negative) != count:
        raise ValueError("one negative prompt for each prompt")
    if negative is None and force_zeros:
        states, vectors = encode(prompts)
        return [(states, vectors), (states * 0, vectors * 0)]
    said = "" if negative is None else negative
    others = [said for _ in prompts] if isinstance(said, str) else [text for text in said]
    states, vectors = encode([*prompts, *others])
    return [(states[:count], vectors[:count]), (states[count:], vectors[count:])]


def pack_valid(hidden, mask, drop, length):
    found = []
    for row, ones in zip(hidden, mask.tolist(), strict=True):
        places = [place for place, one in enumerate(ones) if one == 1]
        if len(places) <= drop:
            raise ValueError("nothing is left of a row")
        found.append([row[place] for place in places[drop:]])
    if length is None:
        length = max(map(len, found))
    if any(len(tokens) > length for tokens in found):
        raise ValueError("a row is too long")
    empty = torch.zeros_like(hidden[0, 0])
    whole = [torch.stack(tokens + [empty] * (length - len(tokens))) for tokens in found]
    ones = [[1] * len(tokens) + [0] * (length - len(tokens)) for tokens in found]
    return torch.stack(whole), torch.tensor(ones)


def through(x, weights, name):
    y = torch.matmul(x, weights[name + ".weight"].t())
    return y + weights[name + ".bias"] if name + ".bias" in weights else y


def rms(x, weight):
    return x / torch.sqrt((x * x).mean(-1, True) + 1e-6) * weight


def joint_attention(image, text, weights, heads, mask):
    size = image.shape[2] // heads
    picture, words = [], []
    streams = ((image, "to_{}", "norm_{}"), (text, "add_{}_proj", "norm_added_{}"))
    for h in range(heads):
        own = slice(h * size, h * size + size)
        queries, keys, values = [], [], []
        for x, layer, norm in streams:
            for letter, kept in (("q", queries), ("k", keys), ("v", values)):
                part = through(x, weights, layer.format(letter))[:, :, own]
                if letter != "v":
                    part = rms(part, weights[norm.format(letter) + ".weight"])
                kept.append(part)
        k, v = torch.cat(keys, 1), torch.cat(values, 1)
        for q, kept in zip(queries, (picture, words), strict=True):
            likeness = torch.einsum("bnd,bmd->bnm", q, k) / math.sqrt(size)
            if mask is not None:
                hides = torch.zeros_like(likeness)
                hides[:, :, image.shape[1] :] = torch.where(mask[:, None], 0.0, -10000.0)
                likeness = likeness + hides
            kept.append(torch.softmax(likeness, 2) @ v)
    return (
        through(torch.cat(picture, 2), weights, "to_out.0"),
        through(torch.cat(words, 2), weights, "to_add_out"),
    )


def image_prompt_attention(hidden, text, images, weights, heads, scales):
    if len(scales) != len(images):
        raise ValueError("a scale for each image prompt")
    q = through(hidden, weights, "to_q")
    size = q.shape[2] // heads
    contexts = [(text, "to_k", "to_v", 1.0)]
    for i in range(len(images)):
        if scales[i] != 0:
            contexts.append((images[i], f"to_k_ip.{i}", f"to_v_ip.{i}", scales[i]))
    total = torch.zeros_like(q)
    for context, key, value, strength in contexts:
        k, v = through(context, weights, key), through(context, weights, value)
        for h in range(heads):
            own = slice(h * size, (h + 1) * size)
            asked = torch.einsum("bnd,bmd->bnm", q[..., own], k[..., own]) * size**-0.5
            total[..., own] += strength * (torch.softmax(asked, -1) @ v[..., own])
    return through(total, weights, "to_out.0")


def batch_conditions(positive, negative, images_per_prompt):
    most = 1
    for half in (positive, negative or {}):
        for value in half.values():
            most = max(most, value.shape[0])
    batch = {}
    for name in positive:
        lines = []
        for half in (negative, positive):
            if half is not None:
                for prompt in range(most):
                    line = half[name][0 if half[name].shape[0] == 1 else prompt]
                    lines.extend([line] * images_per_prompt)
        batch[name] = torch.stack(lines)
    return batch


def edit_prediction(denoiser, tokens, grid, references):
    places, whole = [], tokens
    for row in range(grid[0]):
        for column in range(grid[1]):
            places.append([0, row, column])
    for k, (more, (height, width)) in enumerate(references):
        whole = torch.cat((whole, more), dim=1)
        for row in range(height):
            for column in range(width):
                places.append([k + 1, row, column])
    answer = denoiser(whole, torch.tensor(places))
    return answer[:, : grid[0] * grid[1]]
