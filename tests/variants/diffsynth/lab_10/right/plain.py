"""Lab 10 of diffsynth in plain Python: hooks on networks, wrapped methods on the others."""

import functools
import math
import time

import diffusers
import torch
import transformers

STAGES = ("encode", "denoise", "step", "decode", "output")


def boundary(who, when, value, begin, length):
    count = 1
    for side in value.size():
        count *= int(side)
    good = True
    for number in value.flatten().tolist():
        if not math.isfinite(number):
            good = False
    answer = {}
    answer["finite"] = good
    answer["seconds"], answer["start"] = length, begin
    answer["bytes"] = count * value.element_size()
    answer["dtype"] = {
        torch.float64: "float64",
        torch.float32: "float32",
        torch.float16: "float16",
        torch.bfloat16: "bfloat16",
        torch.int64: "int64",
        torch.int32: "int32",
        torch.int16: "int16",
        torch.int8: "int8",
        torch.uint8: "uint8",
        torch.bool: "bool",
    }[value.dtype]
    answer["device"] = str(value.device).split(":")[0]
    answer["shape"] = [int(side) for side in value.size()]
    answer["stage"], answer["name"] = when, who
    return answer


class _Ear:
    def __init__(self, note):
        self.tell = note
        self.open = []

    def opens(self, _module, _args):
        self.open.insert(0, time.perf_counter())

    def closes(self, _module, _args, result):
        begin = self.open.pop(0)
        self.tell(result, begin, time.perf_counter())


def watch_network(module, note, later):
    ear = _Ear(note)
    later.push(lambda *_, one=module.register_forward_hook(ear.closes): one.remove())
    later.push(lambda *_, one=module.register_forward_pre_hook(ear.opens): one.remove())


def watch_method(thing, word, note, later):
    mine = thing.__dict__.get(word)
    old = mine or getattr(thing, word)

    def new(*args, **kwargs):
        begin = time.perf_counter()
        result = old(*args, **kwargs)
        end = time.perf_counter()
        note(result, begin, end)
        return result

    functools.update_wrapper(new, old)

    def back():
        if mine is None:
            thing.__dict__.pop(word)
        else:
            thing.__dict__[word] = mine

    thing.__dict__[word] = new
    later.callback(back)


class _Notes:
    def __init__(self):
        self.zero = time.perf_counter_ns()
        self.last = 0.0
        self.rows = []
        self.cleanup = []

    def clock(self):
        return (time.perf_counter_ns() - self.zero) / 1e9

    def write(self, who, when, result, begin):
        end = self.clock()
        while not isinstance(result, torch.Tensor):
            result = list(result.values())[0] if isinstance(result, dict) else result[0]
        row = boundary(who, when, result, begin, end - begin)
        total = math.fsum(abs(number) for number in result.flatten().tolist())
        row["mean_abs"] = total / result.numel()
        self.rows.append(row)
        self.last = end

    def hook(self, who, when, network):
        begins = []

        def before(_module, _args):
            begins.append(self.clock())

        def after(_module, _args, result):
            self.write(who, when, result, begins.pop())

        self.cleanup.append(network.register_forward_pre_hook(before).remove)
        self.cleanup.append(network.register_forward_hook(after).remove)

    def wrap(self, who, when, owner):
        had = when in owner.__dict__
        old = getattr(owner, when)

        @functools.wraps(old)
        def new(*args, **kwargs):
            begin = self.clock()
            result = old(*args, **kwargs)
            self.write(who, when, result, begin)
            return result

        def back():
            if had:
                setattr(owner, when, old)
            else:
                delattr(owner, when)

        setattr(owner, when, new)
        self.cleanup.append(back)


def trace(model, text, count, random, **settings):
    notes = _Notes()
    try:
        for who, part in model.components.items():
            if isinstance(part, diffusers.ModelMixin) and hasattr(part, "decode"):
                notes.wrap(who, "decode", part)
            elif isinstance(part, diffusers.ModelMixin):
                notes.hook(who, "denoise", part)
            elif isinstance(part, transformers.PreTrainedModel):
                notes.hook(who, "encode", part)
            elif isinstance(part, diffusers.SchedulerMixin):
                notes.wrap(who, "step", part)
        settings["output_type"] = "pt"
        result = model(text, num_inference_steps=count, generator=random, **settings)
    finally:
        for undo in notes.cleanup[::-1]:
            undo()
    made = result.frames if hasattr(result, "frames") else result.images
    notes.write("image", "output", made, notes.last)
    return made, notes.rows


def _middle(shape):
    if len(shape) == 3:
        return [shape[1]]
    return [side for axis, side in enumerate(shape) if axis > 1]


def contract_errors(run):
    found = []
    steps = [k for k in range(len(run)) if run[k]["stage"] == "step"]
    for k in range(len(run)):
        kind = run[k]["stage"]
        earlier = [j for j in steps if j < k]
        if kind == "step" and earlier:
            for field in ("shape", "dtype", "device"):
                if run[earlier[-1]][field] != run[k][field]:
                    found.append([k, field])
        if kind == "denoise" and steps:
            like = earlier[-1] if earlier else steps[0]
            if _middle(run[like]["shape"]) != _middle(run[k]["shape"]):
                found.append([k, "shape"])
        if kind == "decode" and earlier:
            if run[earlier[-1]]["shape"][0] != run[k]["shape"][0]:
                found.append([k, "shape"])
        if run[k]["finite"] is False:
            found.append([k, "finite"])
    return found


def first_divergence(run, known):
    k = 0
    while k < len(run) and k < len(known):
        for field in "name stage shape dtype finite".split():
            if run[k][field] != known[k][field]:
                return [k, field]
        if known[k]["finite"]:
            low = known[k]["mean_abs"] * (1 - 1e-3)
            high = known[k]["mean_abs"] * (1 + 1e-3)
            if run[k]["mean_abs"] < low or run[k]["mean_abs"] > high:
                return [k, "mean_abs"]
        k += 1
    if k < len(run) or k < len(known):
        return [k, "length"]


def chrome_trace(run):
    lines = []
    for row in run:
        more = {}
        for key in row:
            if key in ("name", "stage", "start", "seconds"):
                continue
            more[key] = row[key]
        if more["mean_abs"] != more["mean_abs"] or abs(more["mean_abs"]) == math.inf:
            more["mean_abs"] = None
        tid = 0
        while STAGES[tid] != row["stage"]:
            tid += 1
        lines.append(
            dict(
                ph="X",
                name=row["name"],
                cat=row["stage"],
                pid=0,
                tid=tid,
                ts=int(row["start"] * 1000000),
                dur=int(row["seconds"] * 1000000),
                args=more,
            )
        )
        lines.append(
            dict(
                ph="C",
                name="bytes",
                pid=0,
                tid=0,
                ts=int((row["start"] + row["seconds"]) * 1000000),
                args=dict(bytes=row["bytes"]),
            )
        )
    return dict(traceEvents=lines, displayTimeUnit="ms")


def account(run):
    table = {}
    owner = None
    largest = None
    for row in run:
        if row["stage"] not in table:
            table[row["stage"]] = dict(calls=0, bytes=0, largest=0, seconds=0.0)
    for stage in table:
        for row in run:
            if row["stage"] == stage:
                table[stage]["calls"] += 1
                table[stage]["bytes"] += row["bytes"]
                if row["bytes"] > table[stage]["largest"]:
                    table[stage]["largest"] = row["bytes"]
                table[stage]["seconds"] += row["seconds"]
        if owner is None or table[stage]["seconds"] > table[owner]["seconds"]:
            owner = stage
    for k in range(len(run)):
        if largest is None or run[k]["bytes"] > run[largest]["bytes"]:
            largest = k
    return dict(stages=table, latency_owner=owner, largest_boundary=largest)
