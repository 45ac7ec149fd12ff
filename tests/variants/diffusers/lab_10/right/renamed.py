"""Lab 10, right: other names, other orders, in place where it is allowed, views returned."""

import collections
import operator

import torch
import torch.nn.functional as F


def sliced_attention(query, key, value, how_many):
    heads = query.size(1)
    if how_many > heads:
        raise ValueError("more than there are")
    if how_many <= 0:
        raise ValueError("less than one")
    # (N, B·heads, d) as storage: what is returned is a permuted view of it
    storage = query.new_empty(query.size(2), query.size(0) * heads, value.size(3))
    stacks = [x.reshape(-1, x.size(2), x.size(3)).split(how_many) for x in (query, key, value)]
    done = 0
    for a, b, c in zip(*stacks, strict=True):
        storage[:, done : done + len(a)] = F.scaled_dot_product_attention(a, b, c).transpose(0, 1)
        done += len(a)
    return storage.view(query.size(2), -1, heads, value.size(3)).permute(1, 2, 0, 3)


def merge_attention(left, left_lse, right, right_lse):
    share = torch.sigmoid(right_lse - left_lse)  # of the right part
    share = torch.where(right_lse == -torch.inf, 0.0, share)
    share = torch.where(left_lse == -torch.inf, 1.0, share)
    left = left.masked_fill((left_lse == -torch.inf)[..., None], 0.0)
    right = right.masked_fill((right_lse == -torch.inf)[..., None], 0.0)
    mixed = left + share[..., None] * (right - left)
    return mixed, torch.stack((left_lse, right_lse), dim=-1).logsumexp(dim=-1)


def chunked_attention(query, fetch, count):
    waiting = []  # a binary counter: parts of equal size are merged, so few are merged often
    for number in range(count):
        key, value = fetch(number)
        scores = torch.einsum("bhnd,bhmd->bhnm", query * query.size(-1) ** -0.5, key)
        part, size = (F.softmax(scores, dim=-1) @ value, torch.logsumexp(scores, -1)), 1
        while waiting and waiting[-1][1] == size:
            other, _ = waiting.pop()
            part, size = merge_attention(*other, *part), 2 * size
        waiting.append((part, size))
    part, _ = waiting.pop()
    while waiting:
        other, _ = waiting.pop()
        part = merge_attention(*other, *part)
    return part


def tiled_decode(to_pixels, z, side, shared, factor):
    if shared >= side:
        raise ValueError("an overlap of a whole tile")
    if all(extent <= side for extent in z.shape[-2:]):
        return to_pixels(z)
    move = side - shared
    columns = [
        [
            to_pixels(z[..., top : top + side, left : left + side])
            for top in range(0, z.size(2), move)
        ]
        for left in range(0, z.size(3), move)
    ]
    rows = list(zip(*columns, strict=True))
    finished = []
    for row in rows:
        new = []
        for place, piece in enumerate(row):
            for before, axis in (
                (finished[-1][place] if finished else None, 2),
                (new[-1] if new else None, 3),
            ):
                if before is None:
                    continue
                n = min(shared * factor, before.size(axis), piece.size(axis))
                weight = piece.new_zeros(piece.size(axis))
                weight[:n] = 1 - torch.arange(n) / max(n, 1)
                lined_up = F.pad(
                    before.transpose(axis, 3)[..., before.size(axis) - n :],
                    (0, piece.size(axis) - n),
                )
                turned = piece.transpose(axis, 3)
                piece = (weight * lined_up + (1 - weight) * turned).transpose(axis, 3)
            new.append(piece)
        finished.append(new)
    edge = move * factor
    return torch.cat(
        [
            torch.cat([row[place][..., :edge, :edge] for row in finished], dim=-2)
            for place in range(len(columns))
        ],
        dim=-1,
    )


def sliced_decode(to_pixels, z):
    done = collections.deque()
    for one in reversed(z.unbind()):  # from the last to the first
        done.appendleft(to_pixels(one[None]))
    return torch.cat(tuple(done), dim=0)


def offload_plan(parts, order, run, room):
    size = collections.Counter({name: sum(leaves) for name, leaves in parts.items()})
    waiting_for = {}
    last = None
    for link in order.split("->"):
        if link in parts:
            waiting_for[link], last = last, link
    device, log = [], []
    for name in run:
        gone = waiting_for.get(name)
        if gone in device:
            device.remove(gone)
            log.append(("down", size[gone]))
        if name not in device:
            device.append(name)
            log.append(("up", size[name]))
    here = height = 0
    for way, count in log:
        here += count if way == "up" else -count
        height = max(height, here)
    leaves = [leaf for name in run for leaf in parts[name]]
    result = {}
    for mode, numbers in (
        ("none", [size.total(), size.total(), 0]),
        ("model", [height, *(sum(c for way, c in log if way == w) for w in ("up", "down"))]),
        ("sequential", [sorted(leaves)[-1], sum(leaves), 0]),
    ):
        result[mode] = dict(zip(["peak", "to_device", "to_host"], numbers, strict=True))
        result[mode]["fits"] = room >= numbers[0]
    return result


def bytes_needed(counts, kind, pictures, tall, wide, settings):
    shrink = settings["vae_scale"] * settings["attention_downsample"]
    tokens = tall // shrink * (wide // shrink)
    maps = pictures * settings["heads"] << bool(settings["guidance"])
    attention = settings["attention"]
    if attention == "chunked":
        row = maps * settings["chunk"]
    elif attention in ("full", "sliced"):
        row = (maps if attention == "full" else settings["slice_size"]) * tokens
    else:
        raise ValueError("attention")
    channels = settings["vae_block_out_channels"][1]
    return dict(
        weights=kind.itemsize * sum(counts.values()),
        scores=kind.itemsize * tokens * row,
        decoder=kind.itemsize * tall * wide * channels * pictures,
    )


def peak_owner(record):
    cure = {"batch": "sliced decode", "activations": "tiled decode", "weights": "offload"}
    cure["scores"] = "chunked attention"
    if not record or not {kind for _, kind, _ in record} <= cure.keys():
        raise ValueError("a record that cannot be judged")
    first = sorted(record, key=operator.itemgetter(2), reverse=True)[0]  # a stable sort
    return first[0], first[2], cure[first[1]]
