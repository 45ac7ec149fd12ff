"""Folds, sums over generators and recursion; text and pictures by a block of zeros and products."""

from functools import reduce

import torch
import torch.nn.functional as nnf


def same_length(*lists):
    first, *others = lists
    for other in others:
        if len(other) != len(first):
            raise ValueError(f"{len(other)} and {len(first)}")


def merge_features(features, weights):
    same_length(*features)
    if weights is None:
        return [torch.stack(level, 0).mean(0) for level in map(list, zip(*features, strict=True))]
    same_length(features, weights)
    scaled = [[f * w for f in each] for each, w in zip(features, weights, strict=True)]
    return reduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)], scaled)


def adapter_down_path(layer, downsample, hidden, counts, features):
    same_length(counts, features)
    skips = [hidden]

    def level(i, h):
        for j in range(counts[i]):
            h = layer(i, j, h)
            if counts[i] - j == 1:
                h = features[i] + h
            skips.append(h)
        if i == len(counts) - 1:
            return h
        skips.append(downsample(i, h))
        return level(i + 1, skips[-1])

    return level(0, hidden), skips


def region_weights(mask, tokens):
    height, width = mask.size()
    rows = int((tokens * height / width) ** 0.5 + 1e-9)
    rows -= -(tokens % rows > 0)
    shape = rows, tokens // rows
    weights = nnf.interpolate(mask.view(1, 1, height, width), shape, mode="bicubic").ravel()
    padded = mask.new_zeros(tokens)
    padded[: weights.numel()] = weights
    return padded


def ip_attention(query, text, images, scales, masks, heads):
    same_length(images, scales, masks)
    n = query.shape[1]

    def folded(x):  # heads go into the batch
        return torch.cat(x.chunk(heads, dim=2), dim=0)

    q = folded(query)
    ones = torch.ones(n)
    total = 0
    regions = [ones if mask is None else region_weights(mask, n) for mask in masks]
    for (k, v), s, region in zip([text, *images], [1, *scales], [ones, *regions], strict=True):
        scores = torch.bmm(q, folded(k).transpose(1, 2)) / (q.shape[2] ** 0.5)
        out = torch.bmm(scores.softmax(dim=2), folded(v))
        joined = torch.cat(out.chunk(heads, dim=0), dim=2)
        total = total + s * region.view(1, n, 1) * joined
    return total


def table_of(masks, lengths):
    same_length(masks, lengths)
    columns = []
    taken = reduce(torch.logical_or, [mask.flatten() > 0.5 for mask in masks])
    for r, (mask, n) in enumerate(zip(masks, lengths, strict=True)):
        inside = mask.flatten() > 0.5
        if r == 0:
            inside = inside | ~taken
        columns.append(inside[:, None].expand(-1, n))
    return torch.cat(columns, dim=1)


def cross_bias(masks, lengths):
    table = table_of(masks, lengths)
    return torch.where(table, 0.0, float("-inf"))


def joint_mask(masks, lengths):
    table = table_of(masks, lengths)
    own = torch.block_diag(*(torch.ones(n, n) for n in lengths)).bool()
    pixels = torch.ones(len(table), len(table)).bool()
    return torch.vstack([torch.hstack([own, table.mT]), torch.hstack([table, pixels])])


def hide(image, mask):
    shown = 1 - (mask >= 0.5).to(image.dtype)
    return shown * image


def inpaint_input(scaled, mask, masked_latents, guidance):
    def whole(rows):
        if len(scaled) % len(rows) != 0:
            raise ValueError(f"{len(rows)} in {len(scaled)}")
        return rows[torch.arange(len(scaled)) % len(rows)]

    small = nnf.interpolate(mask.ge(0.5).float(), scaled.shape[2:], mode="nearest")
    nine = torch.hstack([scaled, whole(small).to(scaled.dtype), whole(masked_latents)])
    return torch.vstack([nine] * (1 + bool(guidance)))


def inpaint_loop(denoiser, scheduler, original, noise, mask, count):
    scheduler.set_timesteps(count)
    moments = scheduler.timesteps

    def turn(x, i):
        t = moments[i]
        guess = denoiser(scheduler.scale_model_input(x, t), t)
        moved = scheduler.step(guess, t, x).prev_sample
        later = moments[i + 1 :][:1]
        known = scheduler.add_noise(original, noise, later) if len(later) else original
        return known + mask * (moved - known)

    return reduce(turn, range(len(moments)), noise * scheduler.init_noise_sigma)


def chain_guidance(predictions, scales):
    first, *others = predictions
    same_length(others, scales)
    links = [b - a for a, b in zip(predictions, others, strict=False)]
    return first + sum(s * link for s, link in zip(scales, links, strict=True))


def sum_guidance(uncond, conds, weights):
    same_length(conds, weights)
    away = [c.sub(uncond).mul(w) for c, w in zip(conds, weights, strict=True)]
    return reduce(torch.add, away, uncond)


def controlled_loop(unet, control, scheduler, latents, embeds, controls, scale, count):
    for window in controls:
        ends = [0.0, window["start"], window["end"], 1.0]
        if sorted(ends) != ends:
            raise ValueError(f"{ends[1:3]}")
    scheduler.set_timesteps(count)
    timesteps = list(scheduler.timesteps)
    n = len(timesteps)

    def weighted(k, x, t):
        down, mid = control(k, x, t, embeds)
        return [r * controls[k]["weight"] for r in (mid, *down)]

    def turn(x, i):
        t = timesteps[i]
        seen = scheduler.scale_model_input(torch.vstack([x, x]), t)
        said = [
            weighted(k, seen, t)
            for k, c in reversed(list(enumerate(controls)))
            if c["start"] <= i / n and c["end"] >= (i + 1) / n and c["weight"]
        ]
        mid, *down = [sum(column) for column in zip(*said, strict=True)] or [None]
        out = unet(seen, t, embeds, down if said else None, mid)
        negative, positive = out.tensor_split(2)
        return scheduler.step(negative + (positive - negative) * scale, t, x).prev_sample

    return reduce(turn, range(n), latents * scheduler.init_noise_sigma)
