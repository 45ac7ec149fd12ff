"""Lab 10 of diffsynth by torch's hooks for all modules, and by objects of another class for a while.

Networks are seen by the hooks that torch has for every module; the VAE and the scheduler are made
objects of a subclass, and made what they were afterwards. Right to left where it can be.
"""

import collections
import contextlib
import inspect
import math
import time

import torch
from diffusers import ModelMixin, SchedulerMixin
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from transformers import PreTrainedModel

STAGES = ("encode", "denoise", "step", "decode", "output")
TIMES = ("start", "seconds")


def boundary(name, stage, tensor, start, seconds):
    flat = tensor.reshape(-1)
    whole = not flat.is_floating_point()
    fine = whole or torch.equal(flat * 0, torch.zeros_like(flat))
    keys = ("seconds", "start", "finite", "bytes", "dtype", "device", "shape", "stage", "name")
    _, dtype = str(tensor.dtype).split(".")
    values = (seconds, start, fine, flat.nelement() * flat.itemsize, dtype, tensor.device.type)
    return dict(zip(keys, (*values, list(tensor.shape), stage, name)))


def watch_network(network, note, undo):
    starts = collections.deque()

    def before(module, args):
        if module is network:
            starts.append(time.perf_counter())

    def after(module, args, result):
        if module is network:
            start, stop = starts.pop(), time.perf_counter()
            note(result, start, stop)

    for register, hook in (
        (register_module_forward_hook, after),
        (register_module_forward_pre_hook, before),
    ):
        undo.callback(register(hook).remove)


def watch_method(owner, name, note, undo):
    def around(inner):
        def outer(*args, **kwargs):
            start = time.perf_counter()
            result = inner(*args, **kwargs)
            stop = time.perf_counter()
            note(result, start, stop)
            return result

        outer.__signature__ = inspect.signature(getattr(owner, name))
        return outer

    undo.enter_context(another_class(owner, name, around))


@contextlib.contextmanager
def another_class(part, method, around):
    """While this lasts, the object is of a subclass whose method is wrapped."""
    old = type(part)
    if method in vars(part):
        mine = vars(part)[method]
        vars(part)[method] = around(mine)
        try:
            yield
        finally:
            vars(part)[method] = mine
        return
    inner = getattr(old, method)

    def outer(self, *args, **kwargs):
        return around(lambda *a, **k: inner(self, *a, **k))(*args, **kwargs)

    outer.__signature__ = inspect.signature(inner)
    part.__class__ = type(old.__name__, (old,), {method: outer})
    try:
        yield
    finally:
        part.__class__ = old


def trace(pipe, prompt, steps, generator, **call):
    zero = time.perf_counter()
    events, ends, open_calls = [], [zero], {}
    networks, methods = {}, []
    for name in reversed(list(pipe.components)):
        part = pipe.components[name]
        if isinstance(part, SchedulerMixin):
            methods.append((name, part, "step"))
        elif isinstance(part, ModelMixin) and hasattr(part, "decode"):
            methods.append((name, part, "decode"))
        elif isinstance(part, ModelMixin | PreTrainedModel):
            reads = isinstance(part, PreTrainedModel)
            networks[id(part)] = name, "encode" if reads else "denoise"

    def add(name, stage, result, start):
        ends.append(time.perf_counter())
        tensor = result
        if not torch.is_tensor(tensor):
            tensor = result[0]
        event = boundary(name, stage, tensor, start - zero, ends[-1] - start)
        event["mean_abs"] = tensor.double().abs().mean()
        events.append(event)

    def before(module, args):
        if id(module) in networks:
            open_calls[id(module)] = time.perf_counter()

    def after(module, args, result):
        if id(module) in networks:
            add(*networks[id(module)], result, open_calls[id(module)])

    def timed(name, stage):
        def around(inner):
            def outer(*args, **kwargs):
                start = time.perf_counter()
                result = inner(*args, **kwargs)
                add(name, stage, result, start)
                return result

            with contextlib.suppress(TypeError, ValueError):
                outer.__signature__ = inspect.signature(inner)
            return outer

        return around

    with contextlib.ExitStack() as stack:
        stack.callback(register_module_forward_hook(after).remove)
        stack.callback(register_module_forward_pre_hook(before).remove)
        for name, part, method in methods:
            stack.enter_context(another_class(part, method, timed(name, method)))
        call.update(num_inference_steps=steps, generator=generator, output_type="pt")
        (images, *_) = pipe(prompt, return_dict=False, **call)
    add("image", "output", images, ends[-1])
    for event in events:
        event["mean_abs"] = event["mean_abs"].item()
    return [images, events]


def _sides(shape):
    match shape:
        case [_, tokens, _]:
            return [tokens]
        case [_, _, *rest]:
            return rest


def contract_errors(events):
    latents = next((e for e in events if e["stage"] == "step"), None)
    begun, told = False, ()
    for place, event in enumerate(events):
        fields = []
        match event["stage"]:
            case "step":
                changed = {k for k in ("shape", "dtype", "device") if latents[k] != event[k]}
                fields += [k for k in ("shape", "dtype", "device") if k in changed and begun]
                begun, latents = True, event
            case "denoise" if latents and _sides(latents["shape"]) != _sides(event["shape"]):
                fields.append("shape")
            case "decode" if begun and latents["shape"][:1] != event["shape"][:1]:
                fields.append("shape")
        fields += ["finite"] * (not event["finite"])
        told += tuple((place, field) for field in fields)
    return told


def first_divergence(events, reference):
    answer = None
    shared = min(len(events), len(reference))
    if len(events) != len(reference):
        answer = shared, "length"
    for place in range(shared - 1, -1, -1):
        one, two = events[place], reference[place]
        if one["finite"] and two["finite"]:
            if not math.isclose(one["mean_abs"], two["mean_abs"], rel_tol=1e-3):
                answer = place, "mean_abs"
        for field in ("finite", "dtype", "shape", "stage", "name"):
            if one[field] != two[field]:
                answer = place, field
    return answer


def chrome_trace(events):
    def entry(event):
        args = {k: event[k] for k in event.keys() - {"name", "stage", *TIMES}}
        if not math.isfinite(event["mean_abs"]):
            args |= {"mean_abs": None}
        ts, dur = (event[k] * 10**6 for k in TIMES)
        row = {"pid": 0, "tid": STAGES.index(event["stage"]), "args": args}
        yield {"ph": "X", "ts": ts, "dur": dur, "name": event["name"], "cat": event["stage"]} | row
        size = {"bytes": event["bytes"]}
        yield {"ph": "C", "ts": ts + dur, "name": "bytes", "pid": 0, "cat": "size", "args": size}

    return {"traceEvents": [line for event in events for line in entry(event)]}


def account(events):
    stages = {}
    for event in reversed(events):
        row = stages.pop(event["stage"], (0, 0, 0, 0.0))
        new = row[0] + 1, row[1] + event["bytes"], max(row[2], event["bytes"])
        stages[event["stage"]] = *new, row[3] + event["seconds"]
    names = ("calls", "bytes", "largest", "seconds")
    first = list(dict.fromkeys(event["stage"] for event in events))
    by_time = sorted(first, key=lambda stage: -stages[stage][3])
    by_size = sorted(enumerate(events), key=lambda pair: (-pair[1]["bytes"], pair[0]))
    return {
        "stages": {stage: dict(zip(names, stages[stage])) for stage in first},
        "latency_owner": by_time[0] if by_time else None,
        "largest_boundary": by_size[0][0] if by_size else None,
    }
