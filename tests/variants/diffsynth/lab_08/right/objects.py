"""With small objects and generators; the device, the network and the caches have a state each."""

import dataclasses
import itertools
import re

import numpy as np
import torch

LEAF = re.compile(r"^(Linear|Embedding|Conv[123]d|ConvTranspose[123]d)$")


def offload_groups(tree, level, blocks_per_group):
    if blocks_per_group < 1 or level not in {"leaf_level", "block_level"}:
        raise ValueError(f"{level}, {blocks_per_group}")
    containers = set()
    if level == "block_level":
        containers = {n for n, kind, _ in tree if kind in ["ModuleList", "Sequential"] and n}

    def leader_of(name):
        if level == "leaf_level":
            return name
        head, *tail = name.split(".", 2)
        if not tail or head not in containers:
            return ""
        first = int(tail[0])
        while first % blocks_per_group:
            first -= 1
        return ".".join([head, str(first)])

    totals = {}
    for name, _kind, own in tree:
        if own:
            leader = leader_of(name)
            totals[leader] = own + totals.get(leader, 0)
    return totals


@dataclasses.dataclass
class Device:
    """What is on it, and what it has seen."""

    sizes: dict
    here: set = dataclasses.field(default_factory=set)
    log: list = dataclasses.field(default_factory=list)
    peak: int = 0
    moved: int = 0

    def load(self, *leaders):
        for leader in leaders:
            if leader not in self.here:
                self.here.add(leader)
                self.log.append(("on", leader))
                self.moved += self.sizes[leader]
                self.peak = max(self.peak, sum(self.sizes[one] for one in self.here))

    def drop(self, leader):
        self.here.discard(leader)
        self.log.append(("off", leader))


def group_events(groups, order, prefetch, first_pass):
    device = Device(dict(groups))
    device.load("")
    window = 1 + bool(prefetch and not first_pass)
    for i in range(len(order)):
        device.load(*order[i : i + window])
        device.drop(order[i])
    device.drop("")
    return {"events": device.log, "peak": device.peak, "moved": device.moved}


def overlapped_seconds(copy, compute):
    arrived, done = 0.0, 0.0
    for took, ran in zip(copy, compute):  # noqa: B905
        begun = arrived if not done else started
        arrived = begun + took
        started = max(arrived, done)
        done = started + ran
    return done


def cast_names(modules, patterns):
    expressions = [re.compile(pattern) for pattern in patterns]
    blocked = {""} - {""}
    names = []
    for name, kind in modules:  # a module comes before what lies in it
        parent = name.rpartition(".")[0]
        if name and (parent in blocked or any(e.search(name) for e in expressions)):
            blocked.add(name)
        elif LEAF.match(kind):
            names.append(name)
    return names


def cast_linear(x, weight, bias, storage):
    def lossy(part):
        return part.type(getattr(torch, storage)).type(x.dtype)

    out = torch.einsum("...i,oi->...o", x, lossy(weight))
    return out if bias is None else out + lossy(bias)


def quantize(weight, bits, group):
    if bits < 2 or bits > 8 or group < 1 or weight.shape[-1] % group:
        raise ValueError((bits, group))
    most = {n: 2**n // 2 - 1 for n in range(2, 9)}[bits]
    array = weight.numpy().astype(np.float64)
    cut = array.reshape(len(array), -1, group)
    scales = np.abs(cut).max(axis=-1) / most
    safe = np.where(scales > 0, scales, np.inf)
    codes = np.rint(cut / safe[..., np.newaxis]).clip(-most - 1, most)
    whole = codes.reshape(array.shape).astype(np.int8)
    return torch.from_numpy(whole), torch.from_numpy(scales.astype(np.float32))


def dequantize(codes, scales):
    parts = codes.chunk(scales.shape[1], dim=1)
    columns = scales.split(1, dim=1)
    return torch.cat([part * column for part, column in zip(parts, columns)], dim=1)  # noqa: B905


def read_gguf(blocks, kind):
    fields = {
        "Q8_0": [("d", "<f2"), ("c", "i1", 32)],
        "Q4_0": [("d", "<f2"), ("c", "u1", 16)],
        "Q4_1": [("d", "<f2"), ("m", "<f2"), ("c", "u1", 16)],
    }
    if kind not in fields:
        raise ValueError(f"kind {kind}")
    form = np.dtype(fields[kind])
    if form.itemsize != blocks.shape[1]:
        raise ValueError(f"width {blocks.shape[1]}")
    table = np.frombuffer(blocks.numpy().tobytes(), dtype=form)
    d = table["d"].astype(np.float32)[:, None]
    codes = table["c"]
    if kind != "Q8_0":
        codes = np.concatenate([codes & 0x0F, codes // 16], axis=1)
    values = codes.astype(np.float32)
    if kind == "Q4_0":
        values -= 8.0
    values = d * values
    if kind == "Q4_1":
        values = values + table["m"].astype(np.float32)[:, None]
    return torch.from_numpy(values)


def cached_run(run_block, blocks, threshold, calls):
    memory = {}

    def relative(new, old):
        return torch.mean(torch.abs(new - old)).item() / torch.mean(torch.abs(old)).item()

    def answer(call):
        x = call["x"]
        after = run_block(0, x)
        state = memory.get(call["branch"])
        if state is not None and not relative(after - x, state["r"]) > threshold:
            return after + state["d"]
        end = after
        for j in list(range(blocks))[1:]:
            end = run_block(j, end)
        memory[call["branch"]] = {"r": after - x, "d": end - after}
        return end

    return list(map(answer, calls))


def attention_computed(calls, every, low, high):
    if every < 1:
        raise ValueError(every)
    history = {}
    decided = []
    for branch, t in calls:
        past = history.setdefault(branch, [])
        decided.append(len(past) % every == 0 or t <= low or t >= high)
        past.append(t)
    return decided


class Planner:
    """A plan that is asked step after step."""

    def __init__(self, threshold, most):
        self.threshold, self.most = threshold, most
        self.forget()

    def forget(self):
        self.state = (1.0, 0.0, 0)

    def skips(self, ratio):
        product, error, count = self.state
        product *= ratio
        self.state = (product, error + abs(product - 1.0), count + 1)
        return self.state[1] <= self.threshold and self.state[2] <= self.most


def mag_cache_plan(ratios, steps, threshold, max_skips, retention):
    if not len(ratios):
        raise ValueError("at least one ratio")
    planner = Planner(threshold, max_skips)
    first = max(int(0.5 + retention * steps), 1)
    plan = list(itertools.repeat(True, min(first, steps)))
    for i in range(first, steps):
        place = round((len(ratios) - 1) * i / (steps - 1))
        skip = planner.skips(ratios[place])
        if not skip:
            planner.forget()
        plan.append(not skip)
    return plan
