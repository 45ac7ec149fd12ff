"""Lab 10, right: plain loops, map by map, query by query, pixel row by pixel row."""

import math

import torch


def sliced_attention(q, k, v, slice_size):
    if slice_size < 1 or slice_size > q.shape[1]:
        raise ValueError("slice_size must lie between 1 and the number of heads")
    places = [(b, h) for b in range(q.shape[0]) for h in range(q.shape[1])]
    results = {}
    while places:
        now, places = places[:slice_size], places[slice_size:]
        for b, h in now:
            attention = torch.softmax(torch.mm(q[b, h], k[b, h].t()) * q.shape[3] ** -0.5, dim=1)
            results[b, h] = torch.mm(attention, v[b, h])
    return torch.stack(
        [torch.stack([results[b, h] for h in range(q.shape[1])]) for b in range(q.shape[0])]
    )


def merge_attention(out_a, lse_a, out_b, lse_b):
    out, lse = torch.zeros_like(out_a), torch.zeros_like(lse_a)
    for place in torch.cartesian_prod(*(torch.arange(n) for n in lse.shape)).reshape(-1, 3):
        b, h, i = place.tolist()
        one, other = lse_a[b, h, i].item(), lse_b[b, h, i].item()
        if one == -math.inf and other == -math.inf:
            lse[b, h, i] = -math.inf
        elif one == -math.inf:
            out[b, h, i], lse[b, h, i] = out_b[b, h, i], other
        elif other == -math.inf:
            out[b, h, i], lse[b, h, i] = out_a[b, h, i], one
        else:
            top = max(one, other)
            first, second = math.exp(one - top), math.exp(other - top)
            mixed = first * out_a[b, h, i].double() + second * out_b[b, h, i].double()
            out[b, h, i] = mixed / (first + second)
            lse[b, h, i] = top + math.log(first + second)
    return out, lse


def chunked_attention(q, blocks, n):
    top, total, summed = {}, {}, {}
    places = [
        (b, h, i) for b in range(q.shape[0]) for h in range(q.shape[1]) for i in range(q.shape[2])
    ]
    for j in range(n):
        k, v = blocks(j)
        for b, h, i in places:
            scores = (k[b, h] @ q[b, h, i] / math.sqrt(q.shape[3])).double()
            most = scores.max().item()
            if j == 0:
                top[b, h, i], total[b, h, i], summed[b, h, i] = most, 0.0, 0.0
            if most > top[b, h, i]:
                shrink = math.exp(top[b, h, i] - most)
                total[b, h, i] *= shrink
                summed[b, h, i] *= shrink
                top[b, h, i] = most
            weights = torch.exp(scores - top[b, h, i])
            total[b, h, i] += weights.sum().item()
            summed[b, h, i] = summed[b, h, i] + weights @ v[b, h].double()
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device=q.device)
    for place in places:
        out[place] = (summed[place] / total[place]).float()
        lse[place] = top[place] + math.log(total[place])
    return out, lse


def tiled_decode(decode, latents, tile, overlap, upscale):
    if not overlap < tile:
        raise ValueError("the overlap must be smaller than the tile")
    if max(latents.shape[2], latents.shape[3]) <= tile:
        return decode(latents)
    step = tile - overlap
    tops = list(range(0, latents.shape[2], step))
    lefts = list(range(0, latents.shape[3], step))
    tiles = {}
    for x in lefts:  # column by column: the order of decoding is free
        for y in tops:
            tiles[y, x] = decode(latents[:, :, y : y + tile, x : x + tile]).clone()
    for y in tops:
        for x in lefts:
            piece = tiles[y, x]
            if y > 0:
                other = tiles[y - step, x]
                rows = min(overlap * upscale, other.shape[2], piece.shape[2])
                for r in range(rows):
                    far = other[:, :, other.shape[2] - rows + r]
                    piece[:, :, r] = far + (piece[:, :, r] - far) * (r / rows)
            if x > 0:
                other = tiles[y, x - step]
                columns = min(overlap * upscale, other.shape[3], piece.shape[3])
                for c in range(columns):
                    far = other[:, :, :, other.shape[3] - columns + c]
                    piece[:, :, :, c] = far + (piece[:, :, :, c] - far) * (c / columns)
    sides = latents.shape[2] * upscale, latents.shape[3] * upscale
    canvas = torch.zeros(latents.shape[0], 3, *sides, device=latents.device)
    for (y, x), piece in tiles.items():
        part = piece[:, :, : step * upscale, : step * upscale]
        height, width = part.shape[2:]
        canvas[:, :, y * upscale : y * upscale + height, x * upscale : x * upscale + width] = part
    return canvas


def sliced_decode(decode, latents):
    pictures = []
    for index in range(latents.shape[0]):
        pictures.append(decode(latents[index].unsqueeze(0))[0])
    return torch.stack(pictures)


def offload_plan(sizes, chain, calls, capacity):
    def report(peak, up, down):
        return {"peak": peak, "to_device": up, "to_host": down, "fits": not peak > capacity}

    total = 0
    for leaves in sizes.values():
        for leaf in leaves:
            total += leaf
    on_device = {name: False for name in sizes}
    peak = up = down = 0
    sequential_peak = sequential_up = 0
    names = [name for name in chain.split("->") if name in on_device]
    for call in calls:
        if call in names and names.index(call) > 0:
            previous = names[names.index(call) - 1]
            if on_device[previous]:
                on_device[previous] = False
                down += sum(sizes[previous])
        if not on_device[call]:
            on_device[call] = True
            up += sum(sizes[call])
        resident = sum(sum(sizes[name]) for name, here in on_device.items() if here)
        if resident > peak:
            peak = resident
        for leaf in sizes[call]:
            sequential_up += leaf
            sequential_peak = max(sequential_peak, leaf)
    return {
        "sequential": report(sequential_peak, sequential_up, 0),
        "model": report(peak, up, down),
        "none": report(total, total, 0),
    }


def bytes_needed(parameter_counts, dtype, batch, height, width, config):
    one = torch.empty((), dtype=dtype).element_size()
    rows = batch + batch if config["guidance"] else batch
    tokens = height // config["vae_scale"] // config["attention_downsample"]
    tokens *= width // config["vae_scale"] // config["attention_downsample"]
    if config["attention"] == "full":
        maps, keys = rows * config["heads"], tokens
    elif config["attention"] == "sliced":
        maps, keys = config["slice_size"], tokens
    elif config["attention"] == "chunked":
        maps, keys = rows * config["heads"], config["chunk"]
    else:
        raise ValueError(config["attention"])
    weights = 0
    for count in parameter_counts.values():
        weights += count * one
    _, channels, *_ = config["vae_block_out_channels"]
    return {
        "decoder": one * channels * batch * width * height,
        "scores": one * maps * tokens * keys,
        "weights": weights,
    }


def peak_owner(events):
    best = None
    for stage, kind, size in events:
        if kind == "weights":
            remedy = "offload"
        elif kind == "scores":
            remedy = "chunked attention"
        elif kind == "activations":
            remedy = "tiled decode"
        elif kind == "batch":
            remedy = "sliced decode"
        else:
            raise ValueError(kind)
        if best is None or size > best[1]:
            best = (stage, size, remedy)
    if best is None:
        raise ValueError("no events")
    return best
