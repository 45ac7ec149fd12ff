"""Sums as products of matrices, tables by comparison, and float64 inside."""

import math

import torch


def merge_features(features, weights):
    count = len(features)
    ws = [1 / count] * count if weights is None else list(weights)
    if len(ws) != count or any(len(f) != len(features[0]) for f in features):
        raise ValueError("the adapters do not fit")
    w = torch.tensor(ws, dtype=torch.float64)
    stacks = [torch.stack(list(level)).double() for level in zip(*features, strict=True)]
    return [torch.tensordot(w, s, dims=1).float() for s in stacks]


def adapter_down_path(layer, downsample, hidden, counts, features):
    if len(list(features)) != len(list(counts)):
        raise ValueError("the features do not fit")
    trail = [hidden.clone()]

    def go(made):
        trail.append(made)
        return made

    plan = [(i, j) for i, count in enumerate(counts) for j in range(count)]
    for i, j in plan:
        made = layer(i, j, trail[-1])
        last = j + 1 == counts[i]
        go(made + features[i] if last else made)
        if last and (i, j) != plan[-1]:
            go(downsample(i, trail[-1]))
    return trail[-1], trail


def region_weights(mask, tokens):
    h, w = mask.shape
    rows = math.floor(math.sqrt(tokens / (w / h)))
    rows = rows if tokens % rows == 0 else rows + 1
    picture = mask.expand(1, 1, h, w)
    flat = torch.nn.functional.interpolate(
        picture, size=[rows, tokens // rows], mode="bicubic", align_corners=False
    ).reshape(-1)
    return torch.cat([flat, flat.new_zeros(tokens - flat.numel())])


def ip_attention(query, text, images, scales, masks, heads):
    if not (len(images) == len(scales) and len(scales) == len(masks)):
        raise ValueError("a scale and a mask for each image")
    width = query.shape[-1] // heads

    def heard(keys, values):
        q, k, v = (x.double().view(*x.shape[:2], heads, width) for x in (query, keys, values))
        weights = torch.einsum("bnhd,bmhd->bhnm", q, k).div(math.sqrt(width)).softmax(-1)
        return torch.einsum("bhnm,bmhd->bnhd", weights, v).flatten(2)

    parts = [heard(*text)]
    for image, scale, mask in zip(images, scales, masks, strict=True):
        region = (
            1.0 if mask is None else region_weights(mask, query.shape[1]).double()[None, :, None]
        )
        parts.append(scale * region * heard(*image))
    return torch.stack(parts).sum(0).to(query.dtype)


def belongs(masks, lengths):
    """(N, ΣL): whether the pixel may look at the token."""
    if len(masks) != len(lengths):
        raise ValueError("a mask for each prompt")
    table = torch.stack([mask.gt(0.5).reshape(-1) for mask in masks], dim=1)
    nobody = table.logical_not().all(dim=1, keepdim=True)
    first = torch.zeros_like(table)
    first[:, 0] = True
    return torch.where(nobody, first, table)


def cross_bias(masks, lengths):
    table = belongs(masks, lengths).double()
    spread = torch.block_diag(*[torch.ones(1, n, dtype=torch.float64) for n in lengths])
    return torch.log(table @ spread).float()


def joint_mask(masks, lengths):
    table = belongs(masks, lengths).double()
    spread = torch.block_diag(*[torch.ones(1, n, dtype=torch.float64) for n in lengths])
    looks = table @ spread
    ones = torch.ones(len(table), len(table), dtype=torch.float64)
    top = torch.cat([spread.T @ spread, looks.T], dim=1)
    return torch.cat([top, torch.cat([looks, ones], dim=1)]) > 0


def hide(image, mask):
    return image.masked_fill(mask.expand_as(image) >= 0.5, 0.0)


def inpaint_input(scaled, mask, masked_latents, guidance):
    b, c, h, w = scaled.shape
    times = [divmod(b, len(rows)) for rows in (mask, masked_latents)]
    if any(rest for _, rest in times):
        raise ValueError("the rows do not divide the batch")
    step_h, step_w = mask.shape[2] // h, mask.shape[3] // w
    small = torch.ge(mask[:, :, ::step_h, ::step_w], 0.5).to(scaled)
    out = torch.empty(b, 2 * c + 1, h, w, dtype=scaled.dtype)
    out[:, :c] = scaled
    out[:, c] = torch.cat([small] * times[0][0])[:, 0]
    out[:, c + 1 :] = torch.cat([masked_latents] * times[1][0])
    return out.repeat(2, 1, 1, 1) if guidance else out


def inpaint_loop(denoiser, scheduler, original, noise, mask, count):
    scheduler.set_timesteps(count)
    moments, free = scheduler.timesteps, mask.bool()
    state = torch.mul(noise, scheduler.init_noise_sigma)
    last = len(moments) - 1
    for i in range(last + 1):
        output = denoiser(scheduler.scale_model_input(state, moments[i]), moments[i])
        state = scheduler.step(output, moments[i], state).prev_sample
        known = (
            original if i == last else scheduler.add_noise(original, noise, moments[i + 1][None])
        )
        state = known.where(~free, state)
    return state


def chain_guidance(predictions, scales):
    if len(scales) + 1 != len(predictions):
        raise ValueError("a scale for each link")
    shares = [a - b for a, b in zip([1.0, *scales], [*scales, 0.0], strict=True)]
    stack = torch.stack(list(predictions)).double()
    return torch.einsum("n,n...->...", torch.tensor(shares).double(), stack).float()


def sum_guidance(uncond, conds, weights):
    if len(conds) - len(weights):
        raise ValueError("a weight for each condition")
    away = torch.stack([c.double() for c in conds]) - uncond.double()
    w = torch.tensor(weights, dtype=torch.float64).reshape(-1, *[1] * uncond.ndim)
    return (uncond.double() + (w * away).sum(0)).float()


def controlled_loop(unet, control, scheduler, latents, embeds, controls, scale, count):
    spans = [(c["start"], c["end"]) for c in controls]
    if any(a > b or min(a, b) < 0 or max(a, b) > 1 for a, b in spans):
        raise ValueError("a window lies within 0 and 1")
    scheduler.set_timesteps(count)
    moments = scheduler.timesteps
    n, x = len(moments), latents.mul(scheduler.init_noise_sigma)
    for i, t in enumerate(moments):
        both = scheduler.scale_model_input(x.repeat(2, 1, 1, 1), t)
        on = [
            (k, c["weight"])
            for k, (c, (a, b)) in enumerate(zip(controls, spans, strict=True))
            if not (i / n < a or (i + 1) / n > b) and c["weight"] != 0
        ]
        down = mid = None
        if on:
            said = [control(k, both, t, embeds) for k, _ in on]
            ws = torch.tensor([w for _, w in on])
            columns = zip(*([*d, m] for d, m in said), strict=True)
            sums = [torch.einsum("k,k...->...", ws, torch.stack(c)) for c in columns]
            down, mid = sums[:-1], sums[-1]
        u, c = unet(both, t, embeds, down, mid).split(len(x))
        x = scheduler.step(torch.lerp(u, c, scale), t, x).prev_sample
    return x
