"""Head by head, pixel by pixel and control by control."""

import torch


def merge_features(features, weights):
    depth = len(features[0])
    for each in features:
        if len(each) != depth:
            raise ValueError("levels")
    if weights is not None and len(weights) != len(features):
        raise ValueError("weights")
    out = []
    for i in range(depth):
        acc = torch.zeros_like(features[0][i])
        for a in range(len(features)):
            share = 1.0 / len(features) if weights is None else weights[a]
            acc = torch.add(acc, features[a][i], alpha=share)
        out.append(acc)
    return out


def adapter_down_path(layer, downsample, hidden, counts, features):
    levels = len(counts)
    if levels != len(features):
        raise ValueError("levels")
    kept, now = (hidden,), hidden
    for i in range(levels):
        for j in range(counts[i] - 1):
            now = layer(i, j, now)
            kept += (now,)
        now = torch.add(layer(i, counts[i] - 1, now), features[i])
        kept += (now,)
        if i + 1 != levels:
            now = downsample(i, now)
            kept += (now,)
    return now, kept


def grid_of(mask, tokens):
    ratio = mask.shape[1] / mask.shape[0]
    rows = 1
    while (rows + 1) ** 2 <= tokens / ratio:
        rows += 1
    if tokens % rows:
        rows += 1
    return rows, tokens // rows


def region_weights(mask, tokens):
    rows, columns = grid_of(mask, tokens)
    picture = mask.reshape(1, 1, *mask.shape)
    small = torch.nn.functional.interpolate(picture, (rows, columns), mode="bicubic")
    out = torch.zeros(tokens)
    for row in range(rows):
        out[row * columns : (row + 1) * columns] = small[0, 0, row]
    return out


def one_head(q, k, v):
    scores = torch.matmul(q, k.mT) * q.shape[-1] ** -0.5
    return torch.matmul(torch.softmax(scores, -1), v)


def look(query, keys, values, heads):
    parts = zip(*(x.chunk(heads, -1) for x in (query, keys, values)), strict=True)
    return torch.cat([one_head(*part) for part in parts], -1)


def ip_attention(query, text, images, scales, masks, heads):
    if len({len(images), len(scales), len(masks)}) > 1:
        raise ValueError("lists")
    result = look(query, text[0], text[1], heads)
    for i in range(len(images)):
        weight = torch.full((query.shape[1], 1), float(scales[i]))
        if masks[i] is not None:
            weight = weight * region_weights(masks[i], query.shape[1]).unsqueeze(1)
        result = result + weight * look(query, images[i][0], images[i][1], heads)
    return result


def prompts_of(masks, pixel):
    mine = [r for r, mask in enumerate(masks) if mask.reshape(-1)[pixel] > 0.5]
    return mine or [0]


def owners(masks, lengths):
    if len(lengths) != len(masks):
        raise ValueError("prompts")
    return [r for r, n in enumerate(lengths) for _ in range(n)]


def cross_bias(masks, lengths):
    owner = owners(masks, lengths)
    pixels = masks[0].numel()
    bias = torch.full((pixels, len(owner)), -10_000.0)
    for pixel in range(pixels):
        for token, r in enumerate(owner):
            if r in prompts_of(masks, pixel):
                bias[pixel, token] = 0.0
    return bias


def joint_mask(masks, lengths):
    owner = owners(masks, lengths)
    words, pixels = len(owner), masks[0].numel()
    table = torch.zeros(words + pixels, words + pixels, dtype=torch.bool)
    for i in range(words + pixels):
        for j in range(words + pixels):
            if i < words and j < words:
                table[i, j] = owner[i] == owner[j]
            elif i < words:
                table[i, j] = owner[i] in prompts_of(masks, j - words)
            elif j < words:
                table[i, j] = owner[j] in prompts_of(masks, i - words)
            else:
                table[i, j] = True
    return table


def hide(image, mask):
    return torch.where(mask >= 0.5, torch.zeros_like(image), image)


def inpaint_input(scaled, mask, masked_latents, guidance):
    batch, _, h, w = scaled.shape
    if batch % mask.shape[0] or batch % masked_latents.shape[0]:
        raise ValueError("rows")
    small = torch.nn.functional.interpolate(mask, (h, w))
    rows = []
    for b in range(batch):
        one = (small[b % len(small)] > 0.5) | (small[b % len(small)] == 0.5)
        rows.append(torch.cat([scaled[b], one.float(), masked_latents[b % len(masked_latents)]]))
    if guidance:
        rows = rows + rows
    return torch.stack(rows)


def inpaint_loop(denoiser, scheduler, original, noise, mask, count):
    scheduler.set_timesteps(count)
    x = scheduler.init_noise_sigma * noise
    ts = list(scheduler.timesteps)
    for t, following in zip(ts, [*ts[1:], None], strict=True):
        x = scheduler.step(denoiser(scheduler.scale_model_input(x, t), t), t, x).prev_sample
        if following is None:
            back = original
        else:
            back = scheduler.add_noise(original, noise, torch.stack([following]))
        x = torch.where(mask == 0, back, x)
    return x


def chain_guidance(predictions, scales):
    if len(predictions) != len(scales) + 1:
        raise ValueError("scales")
    out = predictions[0].clone()
    for before, after, s in zip(predictions[:-1], predictions[1:], scales, strict=True):
        out += s * after - s * before
    return out


def sum_guidance(uncond, conds, weights):
    if len(conds) != len(weights):
        raise ValueError("weights")
    out = uncond.clone()
    for k in range(len(conds)):
        out += weights[k] * (conds[k] - uncond)
    return out


def controlled_loop(unet, control, scheduler, latents, embeds, controls, scale, count):
    for c in controls:
        if c["start"] > c["end"] or c["start"] < 0 or c["end"] > 1:
            raise ValueError("window")
    scheduler.set_timesteps(count)
    ts = scheduler.timesteps
    x = latents * scheduler.init_noise_sigma
    for i in range(len(ts)):
        pair = scheduler.scale_model_input(torch.cat([x] * 2), ts[i])
        total = None
        for k, c in enumerate(controls):
            if c["weight"] == 0 or i / len(ts) < c["start"] or (i + 1) / len(ts) > c["end"]:
                continue
            down, mid = control(k, pair, ts[i], embeds)
            said = [c["weight"] * r for r in [*down, mid]]
            total = said if total is None else [a + b for a, b in zip(total, said, strict=True)]
        if total is None:
            answer = unet(pair, ts[i], embeds, None, None)
        else:
            answer = unet(pair, ts[i], embeds, tuple(total[:-1]), total[-1])
        negative, positive = answer[: len(x)], answer[len(x) :]
        x = scheduler.step((1 - scale) * negative + scale * positive, ts[i], x).prev_sample
    return x
