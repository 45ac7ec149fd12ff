"""Lab 10 of diffsynth with numpy in float64, and methods exchanged on classes for a while.

The pipeline's classes are given other methods while it runs; calls of other objects of the same
class pass through. Where an object has a method of its own, that one is exchanged.
"""

import inspect
import time
from collections import defaultdict
from unittest import mock

import numpy as np
from diffusers.models.modeling_utils import ModelMixin
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from transformers.modeling_utils import PreTrainedModel

STAGES = ("encode", "denoise", "step", "decode", "output")
ITEMSIZE = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
ITEMSIZE["int16"] = 2


def _numbers(x):
    return x.detach().cpu().double().numpy()


def boundary(a, b, x, c, d):
    dtype = repr(x.dtype)[len("torch.") :]
    return dict(
        name=a,
        stage=b,
        shape=tuple(x.shape),
        device=x.device.type,
        dtype=dtype,
        bytes=int(np.prod(x.shape, dtype=np.int64)) * ITEMSIZE.get(dtype, 1),
        finite=bool(np.isfinite(_numbers(x)).all()),
        start=c,
        seconds=d,
    )


def _patched(part, method, hear):
    """The method with an ear behind it: on the object if it has one of its own, else on its class."""
    own = method in vars(part)
    inner = getattr(part if own else type(part), method)

    def outer(*args, **kwargs):
        start = time.perf_counter()
        got = inner(*args, **kwargs)
        stop = time.perf_counter()
        if own or args[0] is part:
            hear(got, start, stop)
        return got

    outer.__signature__ = inspect.signature(inner)
    return mock.patch.object(part if own else type(part), method, outer)


def watch_network(net, hear, later):
    later.enter_context(_patched(net, "__call__", hear))


def watch_method(thing, method, hear, later):
    later.enter_context(_patched(thing, method, hear))


def _role(part):
    if isinstance(part, PreTrainedModel):
        return "encode", "__call__"
    if isinstance(part, ModelMixin):
        return ("decode", "decode") if hasattr(type(part), "decode") else ("denoise", "__call__")
    if isinstance(part, SchedulerMixin):
        return "step", "step"
    return None


def trace(pipeline, words, n, rng, **options):
    origin, marks, rows = time.perf_counter(), [0.0], []

    def keep(name, stage, got, start):
        stop = time.perf_counter() - origin
        marks.append(stop)
        x = got if hasattr(got, "dim") else tuple(got.values() if hasattr(got, "keys") else got)[0]
        row = boundary(name, stage, x, start, stop - start)
        rows.append({"mean_abs": float(np.abs(_numbers(x)).mean()), **row})

    def on_class(name, stage, part, method):
        inner = getattr(type(part), method)

        def outer(self, *args, **kwargs):
            start = time.perf_counter() - origin
            got = inner(self, *args, **kwargs)
            if self is part:
                keep(name, stage, got, start)
            return got

        outer.__signature__ = inspect.signature(inner)
        return mock.patch.object(type(part), method, outer)

    def on_object(name, stage, part, method):
        inner = getattr(part, method)

        def outer(*args, **kwargs):
            start = time.perf_counter() - origin
            got = inner(*args, **kwargs)
            keep(name, stage, got, start)
            return got

        outer.__signature__ = inspect.signature(inner)
        return mock.patch.object(part, method, outer)

    patches = []
    for name, part in pipeline.components.items():
        role = _role(part)
        if role:
            own = role[1] in vars(part)
            patches.append((on_object if own else on_class)(name, *role[:1], part, role[1]))
    started = []
    try:
        for patch in patches:
            patch.start()
            started.append(patch)
        image = pipeline(
            prompt=words, num_inference_steps=n, generator=rng, output_type="pt", **options
        )[0]
    finally:
        for patch in reversed(started):
            patch.stop()
    keep("image", "output", image, marks[-1])
    return image.movedim(-3, -1).movedim(-1, -3), rows


def contract_errors(rows):
    order = {field: i for i, field in enumerate(("shape", "dtype", "device", "finite"))}
    broken = {(i, "finite") for i, row in enumerate(rows) if not row["finite"]}
    steps = [i for i, row in enumerate(rows) if row["stage"] == "step"]
    for one, two in zip(steps, steps[1:]):
        broken |= {(two, f) for f in list(order)[:3] if rows[one][f] != rows[two][f]}
    for i, row in enumerate(rows):
        before = steps[max(np.searchsorted(steps, i) - 1, 0)] if steps else None
        if before is None:
            continue
        latents, mine = rows[before]["shape"], row["shape"]
        if row["stage"] == "denoise":
            cut = slice(1, 2) if len(mine) == 3 else slice(2, None)
            if len(mine) != len(latents) or list(mine[cut]) != list(latents[cut]):
                broken.add((i, "shape"))
        if row["stage"] == "decode" and before < i and mine[0] != latents[0]:
            broken.add((i, "shape"))
    return sorted(broken, key=lambda where: (where[0], order[where[1]]))


def first_divergence(rows, known):
    def same(mine, theirs):
        if not mine["finite"]:
            return True
        return np.isclose(mine["mean_abs"], theirs["mean_abs"], rtol=1e-3, atol=0)

    for i in range(max(len(rows), len(known))):
        if i >= min(len(rows), len(known)):
            return i, "length"
        unlike = [f for f in "name stage shape dtype finite".split() if rows[i][f] != known[i][f]]
        if unlike or not same(rows[i], known[i]):
            return i, (unlike + ["mean_abs"])[0]
    return None


def chrome_trace(rows):
    left_out = {"name", "stage", "start", "seconds"}
    bars, counts = [], []
    for row in rows:
        args = {key: value for key, value in row.items() if key not in left_out}
        args["mean_abs"] = args["mean_abs"] if np.isfinite(args["mean_abs"]) else None
        start, stop = row["start"], row["start"] + row["seconds"]
        common = {"pid": 0, "tid": STAGES.index(row["stage"])}
        bars.append(
            {
                **common,
                "name": row["name"],
                "cat": row["stage"],
                "ph": "X",
                "ts": start / 1e-6,
                "dur": (stop - start) / 1e-6,
                "args": args,
            }
        )
        counts.append({"name": "bytes", "ph": "C", "ts": stop / 1e-6, "pid": 0})
        counts[-1]["args"] = {"bytes": row["bytes"]}
    names = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "pipeline"}}]
    return {"traceEvents": names + bars + counts}


def account(rows):
    of = defaultdict(list)
    for row in rows:
        of[row["stage"]].append((row["bytes"], row["seconds"]))
    table = {
        stage: {
            "seconds": float(np.sum([seconds for _, seconds in pairs])),
            "largest": max(size for size, _ in pairs),
            "bytes": sum(size for size, _ in pairs),
            "calls": len(pairs),
        }
        for stage, pairs in of.items()
    }
    if not rows:
        return {"largest_boundary": None, "latency_owner": None, "stages": {}}
    spent = [table[stage]["seconds"] for stage in table]
    return {
        "largest_boundary": int(np.argmax([row["bytes"] for row in rows])),
        "latency_owner": list(table)[int(np.argmax(spent))],
        "stages": table,
    }
