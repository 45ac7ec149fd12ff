"""Lab 10 · End-to-end inference trace: a pipeline read from the prompt to the picture.

Goal: see a whole run as a row of boundaries. At each of them a tensor leaves one component and
waits for the next; its shape, device, dtype and size say what was agreed on, its numbers say
whether two runs are still the same, and the clock says who owns the latency.

An event is a dict, one for each boundary. Its fields:

    name      which component: its name in pipe.components; "image" for what the pipeline returns
    stage     one of STAGES, below
    shape     list of ints
    device    "cpu", "cuda" …, without a number
    dtype     "float32", "bfloat16" …
    bytes     int: what the elements of the tensor take
    finite    bool: no NaN and no infinity in it
    start     float: seconds since the trace began, when the component was called
    seconds   float: how long it worked
    mean_abs  float: mean of the absolute values (10.2 adds it)

Symbols: B = images in the batch, C, H, W = channels, height and width of latents, F = frames,
N = tokens that a picture is cut into.
"""

import contextlib
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from diffusers import ModelMixin, SchedulerMixin
from torch import Tensor
from transformers import PreTrainedModel

Event = dict[str, Any]
Note = Callable[[Any, float, float], object]  # told what was given, and when: called and done
# In the order in which a run comes to them; denoise and step take turns.
STAGES = ("encode", "denoise", "step", "decode", "output")
# mean_abs of two runs may differ by this fraction before the runs are different.
ROUNDING = 1e-3


def boundary(name: str, stage: str, tensor: Tensor, start: float, seconds: float) -> Event:
    """10.1 · What can be said of a tensor that leaves a component.

    tensor: any shape (also none, and one with a 0 in it), any device, any real dtype that
    torch.isfinite knows; it may be a view, and is not changed. Returns a dict with the fields
    name, stage, shape, device, dtype, bytes, finite, start and seconds, in the types of the table
    above, so that json.dumps writes it.

    bytes counts elements, not the memory behind a view. Whole numbers and booleans are finite. So
    are large numbers: 60000 in float16 is, although a sum of two of them is not.

    Source: torch.Tensor.numel, itemsize, device.type.

    >>> event = boundary("vae", "decode", torch.zeros(2, 3, 8, 12), 1.5, 0.25)
    >>> [event[field] for field in ("shape", "device", "dtype", "bytes", "finite")]
    [[2, 3, 8, 12], 'cpu', 'float32', 2304, True]
    >>> boundary("unet", "denoise", torch.tensor([1.0, float("nan")]), 0.0, 0.1)["finite"]
    False
    """
    ### BEGIN SOLUTION
    return {
        "name": name,
        "stage": stage,
        "shape": list(tensor.shape),
        "device": tensor.device.type,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "bytes": tensor.numel() * tensor.itemsize,
        "finite": bool(torch.isfinite(tensor).all()),
        "start": start,
        "seconds": seconds,
    }
    ### END SOLUTION


def _now() -> float:
    """Supplied: the clock, in seconds. On a GPU the work that was asked for is done first."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def watch_network(network: torch.nn.Module, note: Note, undo: contextlib.ExitStack) -> None:
    """10.6 · Hear of every call of a network, by a hook before it and one after it.

    network: any Module. After each call that comes to its end, note(result, called, done) is called
    once: what the network gave, as it is, and what `_now` said when it was called and when it was
    done. A network may call itself: the inner call is told first, each with its own times.

    undo: an ExitStack. What is set up here goes onto it at once, so that closing it leaves the
    network as it was; hooks of others work all the while, and stay. Returns None.

    Read: handbook/trace.md, "The three tools, on a toy".
    Source: torch.nn.Module.register_forward_pre_hook and register_forward_hook.

    >>> layer, heard = torch.nn.Identity(), []
    >>> with contextlib.ExitStack() as stack:
    ...     watch_network(layer, lambda result, called, done: heard.append(result), stack)
    ...     answer = layer(torch.tensor([3.0]))
    >>> answer, layer(torch.tensor([4.0])), heard
    (tensor([3.]), tensor([4.]), [tensor([3.])])
    """
    ### BEGIN SOLUTION
    called: list[float] = []  # a stack: a network may call itself
    before = network.register_forward_pre_hook(lambda *_: called.append(_now()), prepend=True)
    undo.callback(before.remove)
    after = network.register_forward_hook(
        lambda _, args, result: note(result, called.pop(), _now())
    )
    undo.callback(after.remove)
    ### END SOLUTION


def watch_method(owner: Any, name: str, note: Note, undo: contextlib.ExitStack) -> None:
    """10.7 · Hear of every call of an object's method, by a wrapper over it, on the object.

    owner: any object with a method of that name; others of its class are not listened to. note and
    undo as in 10.6. Whoever calls notices nothing: arguments, by position or by keyword, result,
    exceptions and inspect.signature are the method's. A call that raises is not told.

    The method may be the class's, or somebody else's function, put over it on this very object.
    That one goes on working below the wrapper, and is there again once undo is closed; where there
    was none, vars(owner) has the name no more.

    Read: handbook/trace.md, "The signature" and "Leaving nothing behind".
    Source: the signatures that StableDiffusionPipeline.prepare_extra_step_kwargs looks at.

    >>> class Clock:
    ...     def step(self, output, t, sample):
    ...         return sample - output
    >>> clock, heard = Clock(), []
    >>> with contextlib.ExitStack() as stack:
    ...     watch_method(clock, "step", lambda result, called, done: heard.append(result), stack)
    ...     answer = clock.step(1, t=0, sample=5)
    >>> answer, heard, clock.step(2, 0, 5), heard, vars(clock)
    (4, [4], 3, [4], {})
    """
    ### BEGIN SOLUTION
    method = getattr(owner, name)

    @functools.wraps(method)  # the pipeline looks at the signature of scheduler.step
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        called = _now()
        result = method(*args, **kwargs)
        note(result, called, _now())
        return result

    if name in vars(owner):  # somebody else's wrapper
        undo.callback(setattr, owner, name, method)
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, wrapper)
    ### END SOLUTION


def trace(
    pipe: Any, prompt: Any, steps: int, generator: Any, **call: Any
) -> tuple[Tensor, list[Event]]:
    """10.2 · Run a pipeline once, and write down every boundary on the way.

    pipe: a DiffusionPipeline, such as StableDiffusionPipeline, FluxPipeline or WanPipeline. It is
    called once, with prompt, num_inference_steps=steps, generator, output_type="pt", and `call` as
    it is. Returns (image, events): what the pipeline's output has first, the same as without a
    trace; and the events in the order in which they happened. That image is `images`, (B, 3,
    height, width), or, of a pipeline for videos, `frames`, (B, frames, 3, height, width).

    An event is 10.1's of the *first tensor* of what a component gave (it gives a tensor, or a tuple
    or an output object whose [0] is one), with mean_abs beside. Every call of a component counts:

        encode   a transformers PreTrainedModel                    each call
        denoise  a diffusers ModelMixin without a method decode    each call
        step     a diffusers SchedulerMixin                        each call of .step
        decode   a diffusers ModelMixin with a method decode       each call of .decode
        output   the image; it starts when the last component was done

    The components are the values of pipe.components; which they are is told by their types (a
    subclass is one too), never by their names; what is none of these is passed over. mean_abs is
    worked out in float32 or better. start and seconds are those of `_now`, in seconds; start counts
    from the beginning of `trace`. Nothing but the component's own work is in its seconds, so the
    sum is less than the run took.

    10.6 and 10.7 are made for this; it may be done without them.

    Afterwards everything is as after a run without a trace, also when the pipe raises or Ctrl-C
    ends it (the exception passes through as it is): no hook and no attribute more or less on a
    component, on a class or in torch, each component of its own class, the generator where the run
    left it. What was there before, a hook or an attribute of somebody else's, works during the run
    and still is.

    Source: StableDiffusionPipeline.__call__, FluxPipeline.__call__; the hooks of torch.nn.Module.

    >>> from diffusers.pipelines.pipeline_utils import ImagePipelineOutput as Box
    >>> class Clock(SchedulerMixin):
    ...     def step(self, output, t, sample):
    ...         return (sample - output,)
    >>> class Pipe:
    ...     components = {"clock": Clock(), "words": None}
    ...     def __call__(self, prompt, num_inference_steps, generator, output_type):
    ...         x = torch.tensor([[8.0, -4.0]])
    ...         for t in range(num_inference_steps):
    ...             x = self.components["clock"].step(x / 2, t, x)[0]
    ...         return Box(images=x)
    >>> image, events = trace(Pipe(), "a cat", 2, None)
    >>> image
    tensor([[ 2., -1.]])
    >>> [(event["name"], event["stage"], event["mean_abs"]) for event in events]
    [('clock', 'step', 3.0), ('clock', 'step', 1.5), ('image', 'output', 1.5)]
    >>> "step" in vars(Pipe.components["clock"])
    False
    """
    ### BEGIN SOLUTION
    began = done = _now()
    events: list[Event] = []

    def record(name: str, stage: str, result: Any, called: float, ended: float) -> None:
        nonlocal done
        done = ended
        tensor = result if isinstance(result, Tensor) else result[0]
        event = boundary(name, stage, tensor, called - began, done - called)
        events.append({**event, "mean_abs": float(tensor.float().abs().mean())})

    with contextlib.ExitStack() as undo:
        for name, component in pipe.components.items():
            told = functools.partial(record, name)
            if isinstance(component, PreTrainedModel):
                watch_network(component, functools.partial(told, "encode"), undo)
            elif isinstance(component, SchedulerMixin):
                watch_method(component, "step", functools.partial(told, "step"), undo)
            elif isinstance(component, ModelMixin) and hasattr(component, "decode"):
                watch_method(component, "decode", functools.partial(told, "decode"), undo)
            elif isinstance(component, ModelMixin):
                watch_network(component, functools.partial(told, "denoise"), undo)
        images = pipe(
            prompt, num_inference_steps=steps, generator=generator, output_type="pt", **call
        )[0]
    record("image", "output", images, done, _now())
    return images, events
    ### END SOLUTION


def contract_errors(events: list[Event]) -> list[tuple[int, str]]:
    """10.3 · Where a trace breaks what its components have agreed on.

    events: as 10.2 gives them; there may be any number of any stage, in any order. They are not
    changed. Returns (index, field) for each breach, by index, and for one event in the order shape,
    dtype, device, finite. "The step before" is the latest one, whatever stands between.

    * A step gives latents like those of the step before it: shape, dtype and device are the same.
      Each that is not is a breach. (The first step has none before it.)
    * A denoise predicts for the latents of the step before it: the sides are the same. Before the
      first step, the first step that follows it stands in; without any step there is no breach.
      Sides are the axes that are neither batch nor channels: H, W of (B, C, H, W); F, H, W of
      (B, C, F, H, W); N of (B, N, C). Batch and channels are free: guidance has twice the rows, and
      some networks predict twice the channels. A breach is one of "shape".
    * A decode makes as many images as there are latents: shape[0] is that of the step before it. A
      breach is one of "shape". Its dtype is free: a VAE may work in float32 where others do not.
      Before the first step there is no breach.
    * Whatever is not finite is a breach of "finite", at every stage.

    Source: StableDiffusionPipeline.__call__ and FluxPipeline.__call__, between their components.

    >>> def event(stage, shape, dtype="float16"):
    ...     told = {"stage": stage, "shape": shape, "dtype": dtype}
    ...     return {**told, "device": "cpu", "finite": True}
    >>> run = [event("denoise", [4, 8, 6, 6]), event("step", [2, 4, 6, 6])]
    >>> contract_errors([*run, event("decode", [2, 3, 48, 48], "float32")])
    []
    >>> run += [event("step", [2, 4, 6, 6], "float32"), event("decode", [1, 3, 48, 48])]
    >>> contract_errors(run)
    [(2, 'dtype'), (3, 'shape')]
    """

    ### BEGIN SOLUTION
    def sides(shape: list[int]) -> list[int]:
        return shape[1:2] if len(shape) == 3 else shape[2:]

    breaches = []
    latest = None
    first = next((event for event in events if event["stage"] == "step"), None)
    for index, event in enumerate(events):
        stage, broken = event["stage"], []
        if stage == "step":
            if latest is not None:
                broken = [f for f in ("shape", "dtype", "device") if event[f] != latest[f]]
            latest = event
        elif stage == "denoise" and first is not None:
            latents = latest or first
            if sides(event["shape"]) != sides(latents["shape"]):
                broken.append("shape")
        elif stage == "decode" and latest is not None and event["shape"][0] != latest["shape"][0]:
            broken.append("shape")
        if not event["finite"]:
            broken.append("finite")
        breaches += [(index, field) for field in broken]
    return breaches
    ### END SOLUTION


def first_divergence(events: list[Event], reference: list[Event]) -> tuple[int, str] | None:
    """10.3 · The first place where two traces tell of different runs.

    events, reference: as 10.2 gives them, or empty; they are not changed. Returns (index, field),
    or None when they agree. The event with the smallest index counts, and in it the first field
    that differs of name, stage, shape, dtype, finite, mean_abs. If one trace ends where the other
    goes on, that is (length of the shorter one, "length").

    Two mean_abs differ when they are apart by more than ROUNDING of the reference's; where neither
    event is finite they are not compared. When and where a run took place says nothing about what
    it computed: start, seconds and device are not compared, and bytes follow from the rest.

    >>> def event(stage, mean_abs, shape=(1, 4, 8, 8)):
    ...     told = {"name": "unet", "stage": stage, "shape": list(shape), "dtype": "float32"}
    ...     return {**told, "finite": True, "mean_abs": mean_abs}
    >>> reference = [event("encode", 0.8), event("denoise", 0.5), event("step", 2.0)]
    >>> mine = [event("encode", 0.80001), event("denoise", 0.5), event("step", 2.1)]
    >>> first_divergence(mine, reference), first_divergence(mine[:2], reference)
    ((2, 'mean_abs'), (2, 'length'))
    >>> first_divergence(reference, reference) is None
    True
    """
    ### BEGIN SOLUTION
    for index, (mine, theirs) in enumerate(zip(events, reference, strict=False)):
        for field in ("name", "stage", "shape", "dtype", "finite"):
            if mine[field] != theirs[field]:
                return index, field
        apart = abs(mine["mean_abs"] - theirs["mean_abs"])
        if mine["finite"] and apart > ROUNDING * abs(theirs["mean_abs"]):
            return index, "mean_abs"
    if len(events) != len(reference):
        return min(len(events), len(reference)), "length"
    return None
    ### END SOLUTION


def chrome_trace(events: list[Event]) -> dict[str, Any]:
    """10.4 · The trace in the format that chrome://tracing and ui.perfetto.dev open.

    events: as 10.2 gives them; they are not changed. Returns {"traceEvents": [...]}, in which two
    entries stand for every event: bars in the order of the events, and so the counters. Nothing
    else is drawn; metadata, "M", may stand beside.

        {"name": …, "cat": stage, "ph": "X", "ts": start, "dur": seconds,
         "pid": 0, "tid": place of the stage in STAGES, "args": the event's other fields}
        {"name": "bytes", "ph": "C", "ts": end, "pid": 0, "args": {"bytes": …}}

    "X" is a bar from ts to ts + dur, with one row for each tid; "C" is a counter, whose value holds
    from ts on: the tensor is there when its component is done. All times are in *microseconds*. The
    other fields are shape, device, dtype, bytes, finite and mean_abs. JSON knows neither NaN nor
    infinity: a mean_abs that is itself not finite is None, so that
    json.dumps(…, allow_nan=False) writes every answer.

    Source: the Trace Event Format of Chrome; torch.profiler's export_chrome_trace writes it too.

    >>> event = {"name": "unet", "stage": "denoise", "start": 0.5, "seconds": 0.25, "bytes": 1024}
    >>> bar, counter = chrome_trace([{**event, "mean_abs": 1.5}])["traceEvents"]
    >>> bar["ph"], bar["cat"], bar["ts"], bar["dur"], bar["tid"], bar["args"]
    ('X', 'denoise', 500000.0, 250000.0, 1, {'bytes': 1024, 'mean_abs': 1.5})
    >>> counter
    {'name': 'bytes', 'ph': 'C', 'ts': 750000.0, 'pid': 0, 'args': {'bytes': 1024}}
    """
    ### BEGIN SOLUTION
    entries: list[dict[str, Any]] = []
    for event in events:
        args = {k: v for k, v in event.items() if k not in ("name", "stage", "start", "seconds")}
        if not math.isfinite(args["mean_abs"]):
            args["mean_abs"] = None
        begin, duration = event["start"] * 1e6, event["seconds"] * 1e6
        bar = {"name": event["name"], "cat": event["stage"], "ph": "X", "ts": begin}
        row = {"dur": duration, "pid": 0, "tid": STAGES.index(event["stage"]), "args": args}
        count = {"bytes": event["bytes"]}
        end = {"name": "bytes", "ph": "C", "ts": begin + duration, "pid": 0, "args": count}
        entries += [{**bar, **row}, end]
    return {"traceEvents": entries}
    ### END SOLUTION


def account(events: list[Event]) -> dict[str, Any]:
    """10.5 · What each stage cost, and who owns the latency.

    events: as 10.2 gives them; they are not changed. Returns

        stages            {stage: {"calls", "bytes", "largest", "seconds"}} of stages that occur:
                          how many events, the sum of their bytes, the most bytes of one of them,
                          and the sum of their seconds
        latency_owner     the stage with the most seconds in all
        largest_boundary  the index of the event with the most bytes

    Of equals the one that comes first in the events. Without events: {}, None and None.

    >>> def event(stage, size, seconds):
    ...     return {"stage": stage, "bytes": size, "seconds": seconds}
    >>> run = [event("denoise", 512, 0.25), event("denoise", 256, 0.5), event("decode", 768, 0.5)]
    >>> told = account(run)
    >>> told["stages"]["denoise"]
    {'calls': 2, 'bytes': 768, 'largest': 512, 'seconds': 0.75}
    >>> told["latency_owner"], told["largest_boundary"]
    ('denoise', 2)
    """
    ### BEGIN SOLUTION
    stages: dict[str, dict[str, Any]] = {}
    for event in events:
        new = {"calls": 0, "bytes": 0, "largest": 0, "seconds": 0.0}
        total = stages.setdefault(event["stage"], new)
        total["calls"] += 1
        total["bytes"] += event["bytes"]
        total["largest"] = max(total["largest"], event["bytes"])
        total["seconds"] += event["seconds"]
    return {
        "stages": stages,
        "latency_owner": max(stages, key=lambda stage: stages[stage]["seconds"], default=None),
        "largest_boundary": max(
            range(len(events)), key=lambda index: events[index]["bytes"], default=None
        ),
    }
    ### END SOLUTION
