"""With tensors, itertools and closed forms, and float64 in the middle where it costs nothing."""

import collections
import itertools
import re

import torch
from torch.nn import functional as F  # noqa: N812

KINDS = ("Embedding", "Linear")
CONVOLUTION = re.compile(r"Conv(Transpose)?[123]d")


def offload_groups(tree, level, blocks_per_group):
    blocks = {"block_level": True, "leaf_level": False}.get(level)
    if blocks is None or blocks_per_group <= 0:
        raise ValueError("no such groups")
    lists = [n for n, kind, _ in tree if kind in ("Sequential", "ModuleList") and n.count(".") == 0]
    pattern = re.compile(rf"({'|'.join(map(re.escape, lists))})\.(\d+)(\.|$)") if lists else None
    bytes_of = collections.Counter()
    for name, _kind, own in tree:
        if not blocks:
            leader = name
        elif pattern is not None and (hit := pattern.match(name)):
            which = int(hit[2])
            leader = f"{hit[1]}.{which // blocks_per_group * blocks_per_group}"
        else:
            leader = ""
        bytes_of[leader] += own
    return {leader: count for leader, count in bytes_of.items() if count != 0}


def group_events(groups, order, prefetch, first_pass):
    order = list(order)
    arrivals = [("on", one) for one in order]
    leavings = [("off", one) for one in order]
    if prefetch and not first_pass and order:
        pairs = itertools.zip_longest(arrivals[1:], leavings)
        middle = arrivals[:1] + [event for pair in pairs for event in pair if event]
    else:
        middle = [event for pair in zip(arrivals, leavings) for event in pair]  # noqa: B905
    events = [("on", ""), *middle, ("off", "")]
    steps = torch.tensor([(1 if what == "on" else -1) * groups[one] for what, one in events])
    return {
        "events": events,
        "peak": int(steps.cumsum(0).max()),
        "moved": int(steps.clamp(min=0).sum()),
    }


def overlapped_seconds(copy, compute):
    if len(copy) == 0:
        return 0.0
    a, b = (torch.tensor(list(part), dtype=torch.float64) for part in (copy, compute))
    return float(a[0] + torch.maximum(b, torch.cat([a[1:], a.new_zeros(1)])).sum())


def cast_names(modules, patterns):
    def is_leaf(kind):
        return kind in KINDS or CONVOLUTION.fullmatch(kind) is not None

    def walk(name):
        while name:
            yield name
            name = name.rpartition(".")[0]

    return sorted(
        name
        for name, kind in modules
        if is_leaf(kind) and not any(re.search(p, n) for n in walk(name) for p in patterns)
    )


def cast_linear(x, weight, bias, storage):
    lost = getattr(torch, storage)
    product = x @ weight.to(lost).to(x.dtype).mT
    if bias is not None:
        product = product + bias.to(dtype=lost).to(dtype=x.dtype)
    return product


def quantize(weight, bits, group):
    rows, columns = weight.shape
    if not (1 < bits < 9) or group < 1 or columns % group > 0:
        raise ValueError("cannot be")
    top = 2 ** (bits - 1)
    parts = weight.double().reshape(rows, columns // group, group)
    scale = parts.abs().max(dim=2, keepdim=True).values / (top - 1)
    codes = (parts / scale).nan_to_num(0.0).round().clamp(-top, top - 1)
    return codes.reshape(rows, columns).to(torch.int8), scale.squeeze(2).float()


def dequantize(codes, scales):
    each = scales.repeat_interleave(codes.shape[1] // scales.shape[1], dim=1)
    return codes.double().mul(each.double()).float()


def read_gguf(blocks, kind):
    plan = {"Q8_0": (1, 32), "Q4_0": (1, 16), "Q4_1": (2, 16)}
    if kind not in plan:
        raise ValueError(kind)
    halves, codes = plan[kind]
    if blocks.size(1) != 2 * halves + codes:
        raise ValueError("width")
    head, data = blocks.split([2 * halves, codes], dim=1)
    head = head.clone(memory_format=torch.contiguous_format).view(torch.float16).double()
    if kind == "Q8_0":
        signed = data.to(torch.int16)
        signed = torch.where(signed > 127, signed - 256, signed)
        return (head * signed).float()
    nibbles = torch.stack([data % 16, data.div(16, rounding_mode="floor")], dim=1).flatten(1)
    if kind == "Q4_0":
        return (head * nibbles.double() - 8 * head).float()
    return torch.addcmul(head[:, 1:2], head[:, 0:1], nibbles.double()).float()


class Branch:
    """What is kept for one branch."""

    def __init__(self):
        self.residual, self.rest = None, None

    def changed(self, residual, threshold):
        if self.residual is None:
            return True
        return F.l1_loss(residual, self.residual) / self.residual.abs().mean() > threshold


def cached_run(run_block, blocks, threshold, calls):
    branches = collections.defaultdict(Branch)

    def one(branch, x):
        y0 = run_block(0, x)
        state = branches[branch]
        if state.changed(y0 - x, threshold):
            y = y0
            for number in range(blocks - 1):
                y = run_block(number + 1, y)
            state.residual, state.rest = y0 - x, y - y0
            return y
        return y0 + state.rest

    return tuple(one(call["branch"], call["x"]) for call in calls)


def attention_computed(calls, every, low, high):
    if not every > 0:
        raise ValueError("at least 1")
    counters = collections.defaultdict(itertools.count)
    inside = [low < t and t < high for _, t in calls]
    turns = [next(counters[branch]) for branch, _ in calls]
    return [not within or turn % every == 0 for within, turn in zip(inside, turns)]  # noqa: B905


def mag_cache_plan(ratios, steps, threshold, max_skips, retention):
    if len(ratios) < 1:
        raise ValueError("no ratios at all")
    places = torch.linspace(0, len(ratios) - 1, steps, dtype=torch.float64).round().long()
    stretched = torch.tensor(list(ratios), dtype=torch.float64)[places].tolist()
    kept = max(1, int(retention * steps + 0.5))
    plan = [True] * min(kept, steps)
    while len(plan) < steps:
        products = itertools.accumulate(stretched[len(plan) :], lambda a, b: a * b)
        sums = itertools.accumulate(abs(1 - product) for product in products)
        skipped = sum(1 for _ in itertools.takewhile(lambda s: s <= threshold, sums))
        plan += [False] * min(skipped, max_skips) + [True]
    return plan[:steps]
