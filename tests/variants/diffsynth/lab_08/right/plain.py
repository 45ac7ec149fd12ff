"""Plain Python: single numbers, dicts and counters; events are played while they are written."""

import math
import re
import struct

import torch

NARROW_KINDS = {"Linear", "Embedding"} | {
    f"Conv{way}{n}d" for way in ("", "Transpose") for n in (1, 2, 3)
}


def offload_groups(tree, level, blocks_per_group):
    if blocks_per_group < 1:
        raise ValueError("a group has a block at least")
    if level == "leaf_level":
        return {name: size for name, _, size in tree if size > 0}
    if level != "block_level":
        raise ValueError(level)
    found = {"": 0}
    kinds = {name: kind for name, kind, _ in tree}
    for name, _kind, size in tree:
        parts = name.split(".")
        if len(parts) > 1 and kinds[parts[0]] in {"Sequential", "ModuleList"}:
            start = int(parts[1]) // blocks_per_group * blocks_per_group
            key = parts[0] + "." + str(start)
        else:
            key = ""
        found[key] = found.setdefault(key, 0) + size
    for key in [key for key in found if found[key] == 0]:
        del found[key]
    return found


def group_events(groups, order, prefetch, first_pass):
    told, here, highest, came = [], {}, 0, 0

    def bring(leader):
        nonlocal highest, came
        if leader in here:
            return
        here[leader] = groups[leader]
        came += groups[leader]
        highest = max(highest, sum(here.values()))
        told.append(["on", leader])

    bring("")
    early = prefetch and not first_pass
    for place, leader in enumerate(order):
        bring(leader)
        if early and place + 1 < len(order):
            bring(order[place + 1])
        del here[leader]
        told.append(["off", leader])
    told.append(["off", ""])
    return {"moved": came, "peak": highest, "events": told}


def overlapped_seconds(copy, compute):
    clock = copy[0] if len(copy) else 0
    for i in range(len(copy)):
        ready = clock + (copy[i + 1] if i + 1 < len(copy) else 0)
        clock = max(clock + compute[i], ready)
    return clock


def cast_names(modules, patterns):
    spared = [name for name, _ in modules if any(re.search(p, name) for p in patterns if name)]
    found = []
    for name, kind in modules:
        if kind not in NARROW_KINDS:
            continue
        if any(name == one or name.startswith(one + ".") for one in spared):
            continue
        found.append(name)
    return found[::-1]


def cast_linear(x, weight, bias, storage):
    dtype = {
        "float8_e4m3fn": torch.float8_e4m3fn,
        "float8_e5m2": torch.float8_e5m2,
        "bfloat16": torch.bfloat16,
    }[storage]
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=x.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight.to(dtype))
        if bias is not None:
            layer.bias.copy_(bias.to(dtype))
    return layer(x)


def quantize(weight, bits, group):
    if bits not in range(2, 9) or group <= 0 or weight.size(1) % group != 0:
        raise ValueError("bits or group")
    limit = (1 << (bits - 1)) - 1
    codes, scales = [], []
    for row in weight.tolist():
        codes.append([])
        scales.append([])
        for start in range(0, len(row), group):
            part = row[start : start + group]
            scale = max(abs(w) for w in part) / limit
            scales[-1].append(scale)
            codes[-1] += [
                max(-limit - 1, min(limit, round(w / scale))) if scale else 0 for w in part
            ]
    return torch.tensor(codes, dtype=torch.int8), torch.tensor(scales, dtype=torch.float32)


def dequantize(codes, scales):
    rows, columns = codes.shape
    width = columns // scales.shape[1]
    out = torch.empty(rows, columns)
    for i in range(rows):
        for j in range(columns):
            out[i, j] = float(codes[i, j]) * float(scales[i, j // width])
    return out


def read_gguf(blocks, kind):
    form = {"Q8_0": "<e32b", "Q4_0": "<e16B", "Q4_1": "<2e16B"}.get(kind)
    if form is None or struct.calcsize(form) != blocks.shape[1]:
        raise ValueError(kind)
    rows = []
    for block in blocks.tolist():
        d, *rest = struct.unpack(form, bytes(block))
        if kind == "Q8_0":
            rows.append([d * c for c in rest])
        elif kind == "Q4_0":
            rows.append([d * (c % 16 - 8) for c in rest] + [d * (c // 16 - 8) for c in rest])
        else:
            m, *rest = rest
            rows.append([d * (c % 16) + m for c in rest] + [d * (c // 16) + m for c in rest])
    return torch.tensor(rows, dtype=torch.float32)


def cached_run(run_block, blocks, threshold, calls):
    residuals, additions, answers = {}, {}, []
    for call in calls:
        x, key = call["x"], call["branch"]
        states = [x, run_block(0, x)]
        residual = states[1] - states[0]
        old = residuals.get(key)
        change = math.inf
        if old is not None:
            change = float((residual - old).abs().sum() / old.abs().sum())
        if change > threshold:
            for j in range(blocks)[1:]:
                states.append(run_block(j, states[-1]))
            residuals[key] = residual
            additions[key] = states[-1] - states[1]
            answers.append(states[-1])
        else:
            answers.append(additions[key] + states[1])
    return answers


def attention_computed(calls, every, low, high):
    if every <= 0:
        raise ValueError("every")
    until = {}
    answer = []
    for branch, t in calls:
        left = until.get(branch, 0)
        outside = t <= low or t >= high
        answer.append(left == 0 or outside)
        until[branch] = (left or every) - 1
    return answer


def mag_cache_plan(ratios, steps, threshold, max_skips, retention):
    n = len(ratios)
    if n == 0:
        raise ValueError("ratios")
    begin = math.floor(retention * steps + 0.5)
    plan, since = [], []
    for i in range(steps):
        run = True
        if i >= begin and i != 0:
            since.append(ratios[round(i * (n - 1) / (steps - 1))])
            total, product = 0.0, 1.0
            for ratio in since:
                product = product * ratio
                total = total + abs(product - 1)
            run = total > threshold or len(since) > max_skips
        if run:
            since = []
        plan.append(run)
    return plan
