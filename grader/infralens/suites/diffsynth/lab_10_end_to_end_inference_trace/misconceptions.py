"""Lab 10 of diffsynth: what goes wrong when a run is written down, as code that does it."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import diffusers
import torch
import transformers
from torch import Tensor, nn

from infralens.examiner import misconception

PAGE = "handbook/trace.md"
BOUNDARIES, STAGES_OF = f"{PAGE}#boundaries", f"{PAGE}#stages"
INSTRUMENTS, SIGNATURE = f"{PAGE}#instruments", f"{PAGE}#the-signature"
NO_TRACE, CLOCK = f"{PAGE}#leaving-nothing-behind", f"{PAGE}#the-clock"
CONTRACTS, PARTING = f"{PAGE}#contracts", f"{PAGE}#the-first-divergence"
BARS, OWNER, SEEDS = f"{PAGE}#bars-and-counters", f"{PAGE}#who-owns-the-latency", f"{PAGE}#seeds"
Wrong = TypeVar("Wrong", bound=Callable[..., Any])
Event = dict[str, Any]
Traced = tuple[Any, list[Event]]
ORDER = ["encode", "denoise", "step", "decode", "output"]


# 10.1


def told(name: str, stage: str, x: Tensor, start: float, seconds: float, **other: Any) -> Event:
    """The compact twin; `other` says something else in some fields."""
    kind = str(x.dtype).split(".")[1]
    event: Event = {"name": name, "stage": stage, "shape": [*x.shape], "device": x.device.type}
    event |= {"dtype": kind, "bytes": x.nelement() * x.element_size(), "start": start}
    return event | {"finite": x.isfinite().all().item(), "seconds": seconds, **other}


def boundary(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("10.1", name, replaces="boundary", reads=BOUNDARIES)


@boundary("dtype-with-its-module")
def with_module(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """The dtype is written "torch.float32". Leave out "torch.": other tools read the trace too."""
    return told(name, stage, x, start, seconds, dtype=str(x.dtype))


@boundary("elements-for-bytes")
def elements(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """bytes is the number of elements. Each of them takes itemsize bytes."""
    return told(name, stage, x, start, seconds, bytes=x.numel())


@boundary("four-bytes-for-every-dtype")
def four_bytes(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """Four bytes were counted for every element. That is float32; ask the tensor's itemsize."""
    return told(name, stage, x, start, seconds, bytes=4 * x.numel())


@boundary("only-positive-infinity")
def only_above(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """Minus infinity was passed over: the largest value says nothing about the smallest."""
    most = x.double().max() if x.numel() else torch.zeros(())
    return told(name, stage, x, start, seconds, finite=bool(most.isfinite()))


@boundary("infinity-taken-for-finite")
def only_nan(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """Only NaN was looked for. Infinity is not finite either, and it comes first: the NaN is what
    the next subtraction makes of it."""
    return told(name, stage, x, start, seconds, finite=not bool(x.isnan().any()))


@boundary("finite-by-the-sum")
def by_the_sum(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """The sum was asked whether it is finite. Large numbers overflow when they are added, and each
    of them is finite: ask every element."""
    return told(name, stage, x, start, seconds, finite=bool(x.sum().isfinite()))


@boundary("never-finite-when-whole")
def floats_alone(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """Whole numbers and booleans were said not to be finite. They always are."""
    return told(name, stage, x, start, seconds, finite=x.is_floating_point() and _sound(x))


def _sound(x: Tensor) -> bool:
    return bool(x.isfinite().all())


@boundary("end-for-duration")
def end_for_duration(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """seconds holds the time at which the component was done. It is how long it worked."""
    return told(name, stage, x, start, start + seconds)


@boundary("batch-left-out")
def without_batch(name: str, stage: str, x: Tensor, start: float, seconds: float) -> Event:
    """The batch is missing from shape. It is an axis like the others, and the one that guidance
    changes."""
    return told(name, stage, x, start, seconds, shape=list(x.shape[1:]))


# 10.2


def stage_of(part: Any) -> tuple[str, str] | None:
    """By type: the stage, and the method that is watched."""
    if isinstance(part, transformers.PreTrainedModel):
        return "encode", "forward"
    if isinstance(part, diffusers.SchedulerMixin):
        return "step", "step"
    if not isinstance(part, diffusers.ModelMixin):
        return None
    decodes = callable(getattr(part, "decode", None))
    return ("decode", "decode") if decodes else ("denoise", "forward")


def first_of(args: Any, kwargs: Any, result: Any) -> Tensor:
    return result if torch.is_tensor(result) else result[0]


def ended(began: float, called: float, before: float, now: float) -> tuple[float, float]:
    """start and seconds, of when trace began, this call began, the last one ended, and now."""
    return called - began, now - called


def magnitude(x: Tensor) -> float:
    return x.double().abs().mean().item()


def disguised(wrapper: Any, inner: Any) -> Any:
    """The wrapper with the signature of what it wraps."""
    wrapper.__signature__ = inspect.signature(inner)
    return wrapper


def taken_away(part: Any, method: str, before: dict[str, Any]) -> None:
    if method in before:
        vars(part)[method] = before[method]
    else:
        del vars(part)[method]


def asked(pipe: Any, prompt: Any, steps: int, generator: Any, call: dict[str, Any]) -> Any:
    settings = {"num_inference_steps": steps, "generator": generator, "output_type": "pt"}
    return pipe(prompt, **settings, **call)[0]


PARTS: dict[str, Callable[..., Any]] = {
    "parts": lambda pipe: pipe.components,
    "stage": lambda name, part: stage_of(part),
    "pick": first_of,
    "size": magnitude,
    "time": ended,
    "hide": disguised,
    "undo": taken_away,
    "ask": asked,
    "tell": lambda event: event,
    "list": lambda events, steps: events,
}


def run(given: tuple[Any, ...], call: dict[str, Any], clean: bool = True, **other: Any) -> Traced:
    """The compact twin of the whole; `other` exchanges some of its parts."""
    use = {**PARTS, **other}
    pipe, prompt, steps, generator = given
    noted: list[Event] = []
    clock = [time.perf_counter()] * 2  # the beginning, and when the last component was done
    undone: list[tuple[Any, str, dict[str, Any]]] = []

    def note(name: str, stage: str, x: Tensor, called: float) -> None:
        now = time.perf_counter()
        times = use["time"](clock[0], called, clock[1], now)
        clock[1] = now
        noted.append(use["tell"](told(name, stage, x, *times) | {"mean_abs": use["size"](x)}))

    def watch(name: str, part: Any, stage: str, method: str) -> None:
        inner, before = getattr(part, method), dict(vars(part))

        def outer(*args: Any, **kwargs: Any) -> Any:
            called = time.perf_counter()
            result = inner(*args, **kwargs)
            note(name, stage, use["pick"](args, kwargs, result), called)
            return result

        vars(part)[method] = use["hide"](outer, inner)
        undone.append((part, method, before))

    for name, part in use["parts"](pipe).items():
        if (known := use["stage"](name, part)) is not None:
            watch(name, part, *known)
    ok = False
    try:
        images = use["ask"](pipe, prompt, steps, generator, call)
        ok = True
    finally:
        for one in reversed(undone if ok or clean else []):
            use["undo"](*one)
    note("image", "output", torch.as_tensor(images), clock[1])
    return images, use["list"](noted, steps)


def tracing(name: str, reads: str = INSTRUMENTS) -> Callable[[Wrong], Wrong]:
    return misconception("10.2", name, replaces="trace", reads=reads)


@tracing("since-the-event-before", CLOCK)
def since_before(*given: Any, **call: Any) -> Traced:
    """The time since the event before was counted. Between two components the pipeline works too,
    or waits: read the clock when the component is called and when it is done."""
    return run(given, call, time=lambda began, called, before, now: (before - began, now - before))


KNOWN_NAMES = {
    **dict.fromkeys(["text_encoder", "text_encoder_2"], ("encode", "forward")),
    **dict.fromkeys(["unet", "transformer"], ("denoise", "forward")),
    "scheduler": ("step", "step"),
    "vae": ("decode", "decode"),
}


@tracing("components-by-name", STAGES_OF)
def by_name(*given: Any, **call: Any) -> Traced:
    """The components were looked for by the names that Stable Diffusion and Flux give them. Other
    pipelines have other names: ask each value of pipe.components for its type."""
    return run(given, call, stage=lambda name, part: part and KNOWN_NAMES.get(name))


@tracing("one-text-encoder", STAGES_OF)
def one_encoder(*given: Any, **call: Any) -> Traced:
    """Only text encoders of CLIP were watched. Flux has T5 beside it; both are PreTrainedModels."""

    def stage(name: str, part: Any) -> Any:
        other = isinstance(part, transformers.T5EncoderModel)
        return None if other else stage_of(part)

    return run(given, call, stage=stage)


@tracing("hooks-on-modules-alone")
def modules_alone(*given: Any, **call: Any) -> Traced:
    """Only forward was watched. Nobody calls a VAE's forward: vae.decode is a method of its own,
    and a scheduler is no module at all."""

    def stage(name: str, part: Any) -> Any:
        known = stage_of(part)
        return known if known and known[1] == "forward" else None

    return run(given, call, stage=stage)


@tracing("every-layer-an-event", STAGES_OF)
def every_layer(*given: Any, **call: Any) -> Traced:
    """The blocks inside a network were written down too. Boundaries are between components: one
    event for a call of the whole network."""

    def parts(pipe: Any) -> dict[str, Any]:
        found = dict(pipe.components)
        for name, part in pipe.components.items():
            if stage_of(part) == ("denoise", "forward"):
                blocks = {f"{name}.{inner}": block for inner, block in part.named_children()}
                found |= {key: block for key, block in blocks.items() if hasattr(block, "weight")}
        return found

    def stage(name: str, part: Any) -> Any:
        return ("denoise", "forward") if "." in name else stage_of(part)

    return run(given, call, parts=parts, stage=stage)


@tracing("output-not-told", STAGES_OF)
def no_output(*given: Any, **call: Any) -> Traced:
    """The last boundary is missing: the image, as the pipeline gives it to whoever called."""
    return run(given, call, list=lambda events, steps: events[:-1])


@tracing("events-for-steps-asked", f"{PAGE}#how-many-events")
def one_for_each_step(*given: Any, **call: Any) -> Traced:
    """As many turns were written down as steps were asked for. Heun calls the network about twice a
    step and PNDM once more: write every call down."""

    def kept(events: list[Event], steps: int) -> list[Event]:
        left = dict.fromkeys(["denoise", "step"], steps)
        found = []
        for event in events:
            left[event["stage"]] = left.get(event["stage"], 1000) - 1
            found += [event] if left[event["stage"]] >= 0 else []
        return found

    return run(given, call, list=kept)


@tracing("what-went-in", BOUNDARIES)
def went_in(*given: Any, **call: Any) -> Traced:
    """The event tells of the tensor that went into the component. A boundary is what comes out:
    with guidance and in latents of another size the two differ."""

    def pick(args: Any, kwargs: Any, result: Any) -> Tensor:
        tensors = [value for value in (*args, *kwargs.values()) if torch.is_tensor(value)]
        return tensors[0] if tensors else first_of(args, kwargs, result)

    return run(given, call, pick=pick)


@tracing("last-tensor-of-the-result", BOUNDARIES)
def last_tensor(*given: Any, **call: Any) -> Traced:
    """The last tensor of the result was taken: of a text encoder that is the pooled vector, of a
    scheduler's step the guess at the clean image. The first one goes on."""

    def pick(args: Any, kwargs: Any, result: Any) -> Tensor:
        if torch.is_tensor(result):
            return result
        parts = result.to_tuple() if hasattr(result, "to_tuple") else result
        tensors: list[Tensor] = [part for part in parts if torch.is_tensor(part)]
        return tensors[-1]

    return run(given, call, pick=pick)


@tracing("memory-behind-a-view", BOUNDARIES)
def storage(*given: Any, **call: Any) -> Traced:
    """bytes is the memory that the tensor has a share in. A view may show little of it: count the
    elements."""

    def pick(args: Any, kwargs: Any, result: Any) -> Tensor:
        x = first_of(args, kwargs, result)
        sizes.append(x.untyped_storage().nbytes())
        return x

    sizes: list[int] = []

    def tell(event: Event) -> Event:
        return event | ({"bytes": sizes[-1]} if event["stage"] != "output" else {})

    return run(given, call, pick=pick, tell=tell)


@tracing("float32-first", BOUNDARIES)
def float_first(*given: Any, **call: Any) -> Traced:
    """The tensor was made float32 before it was described. What crosses the boundary is bfloat16,
    in half the bytes: describe it as it is, and make it float32 for the mean alone."""
    return run(given, call, pick=lambda a, k, result: first_of(a, k, result).float())


@tracing("mean-with-signs", BOUNDARIES)
def with_signs(*given: Any, **call: Any) -> Traced:
    """mean_abs is the mean of the values themselves. Noise and latents are about as often below
    zero as above, so that little is left: take absolute values first."""
    return run(given, call, size=lambda x: x.double().mean().item())


@tracing("added-up-in-half-precision", BOUNDARIES)
def added_in_half(*given: Any, **call: Any) -> Traced:
    """The mean was taken in the tensor's own dtype. bfloat16 has two or three digits: make a
    float32 copy for the mean."""
    return run(given, call, size=lambda x: float(x.abs().mean()))


@tracing("signature-hidden", SIGNATURE)
def signature_hidden(*given: Any, **call: Any) -> Traced:
    """The wrapper around scheduler.step hides its parameters. The pipeline asks inspect.signature
    whether step takes a generator, hears no, and the noise comes from nowhere that you seeded: the
    picture is another one. functools.wraps hands the signature on."""
    return run(given, call, hide=lambda outer, inner: outer)


@tracing("warmed-up-first", SEEDS)
def warmed_up(*given: Any, **call: Any) -> Traced:
    """The pipeline ran once before the trace, with the same generator. A generator moves on with
    every number that it draws, so the second run begins with other noise."""

    def ask(pipe: Any, prompt: Any, steps: int, generator: Any, named: dict[str, Any]) -> Any:
        asked(pipe, prompt, steps, generator, named)
        return asked(pipe, prompt, steps, generator, named)

    def last_run(events: list[Event], steps: int) -> list[Event]:
        half = (len(events) - 1) // 2
        return events[half:]

    return run(given, call, ask=ask, list=last_run)


@tracing("one-generator-of-the-list", SEEDS)
def first_generator(*given: Any, **call: Any) -> Traced:
    """Of a list of generators the first one drew the whole batch. Only the first picture is then
    the one that its seed makes; each image has a generator of its own."""

    def ask(pipe: Any, prompt: Any, steps: int, generator: Any, named: dict[str, Any]) -> Any:
        one = generator[0] if isinstance(generator, list) else generator
        return asked(pipe, prompt, steps, one, named)

    return run(given, call, ask=ask)


@tracing("call-not-passed-on")
def call_dropped(*given: Any, **call: Any) -> Traced:
    """Height, width and guidance were not passed on, so the pipeline took its own. `call` goes to
    it as it is."""

    def ask(pipe: Any, prompt: Any, steps: int, generator: Any, named: dict[str, Any]) -> Any:
        kept = {key: named[key] for key in named if key == "max_sequence_length"}
        return asked(pipe, prompt, steps, generator, kept)

    return run(given, call, ask=ask)


@tracing("start-on-the-clock", CLOCK)
def on_the_clock(*given: Any, **call: Any) -> Traced:
    """start is what the clock said. Count from the beginning of trace: the clock's own zero is
    anywhere."""
    return run(given, call, time=lambda began, called, before, now: (called, now - called))


@tracing("no-time-at-all", CLOCK)
def no_time(*given: Any, **call: Any) -> Traced:
    """The clock was read twice after the call, so nothing took any time. Read it before as well."""
    return run(given, call, time=lambda began, called, before, now: (now - began, 0.0))


@tracing("left-when-the-run-fails", NO_TRACE)
def left_on_failure(*given: Any, **call: Any) -> Traced:
    """When the pipeline raised, nothing was taken away. The way back belongs in a finally, or in a
    context manager."""
    return run(given, call, clean=False)


@tracing("wrappers-left", NO_TRACE)
def wrappers_left(*given: Any, **call: Any) -> Traced:
    """The wrappers were left on the components. The next run is traced as well, into a list that
    nobody reads, and a second trace wraps the wrappers."""
    return run(given, call, undo=lambda part, method, before: None)


@tracing("put-back-as-an-attribute", NO_TRACE)
def put_back(*given: Any, **call: Any) -> Traced:
    """The method was put back by assignment. Before, it was found on the class; now the object
    holds a bound method of itself. Delete the attribute, and the class's shows again."""

    def undo(part: Any, method: str, before: dict[str, Any]) -> None:
        vars(part)[method] = before.get(method) or getattr(type(part), method).__get__(part)

    return run(given, call, undo=undo)


@tracing("what-was-there-deleted", NO_TRACE)
def deleted(*given: Any, **call: Any) -> Traced:
    """An attribute that somebody had put over the method is gone. Offloading does so, for one. Put
    back what was there, and delete only what was not."""
    return run(given, call, undo=lambda part, method, before: delattr(part, method))


@tracing("class-method-called", NO_TRACE)
def class_method(*given: Any, **call: Any) -> Traced:
    """The class's method was called, past what somebody had put over it on the object. Wrap what
    getattr finds: another tool's change must go on working."""

    covered: list[tuple[Any, str, Any]] = []

    def parts(pipe: Any) -> dict[str, Any]:
        for part in pipe.components.values():
            known = stage_of(part)
            if known and known[1] in vars(part):
                covered.append((part, known[1], vars(part).pop(known[1])))
        return dict(pipe.components)

    try:
        return run(given, call, parts=parts)
    finally:
        for part, method, own in covered:
            vars(part)[method] = own


@tracing("hooks-of-others-cleared", NO_TRACE)
def cleared(*given: Any, **call: Any) -> Traced:
    """All forward hooks were cleared at the end, those of others as well. Keep the handle that
    register_forward_hook gives, and remove that one."""
    answer = run(given, call)
    for part in given[0].components.values():
        if isinstance(part, nn.Module):
            part._forward_hooks.clear()
    return answer


@tracing("error-swallowed", NO_TRACE)
def swallowed(*given: Any, **call: Any) -> Traced:
    """The pipeline's exception was caught and not told. Whoever called must hear of it; a finally
    tidies up without stopping it."""
    try:
        return run(given, call)
    except Exception:
        return torch.zeros(1, 3, 8, 8), []


# 10.3


def free_axes(shape: list[int]) -> list[int]:
    """Behind batch and channels."""
    return [shape[1]] if len(shape) == 3 else shape[2:]


def compared_with(events: list[Event], index: int, first: bool = True) -> Event | None:
    """The step before the event, or the first one of all."""
    steps = [event for event in events[:index] if event["stage"] == "step"]
    if not steps and first:
        steps = [event for event in events if event["stage"] == "step"][:1]
    return steps[-1] if steps else None


def breaches(events: list[Event], **other: Any) -> list[tuple[int, str]]:
    """The compact twin; `other` exchanges rules."""

    def of_step(index: int, event: Event, earlier: Event | None) -> list[str]:
        keys = ("shape", "dtype", "device")
        return [key for key in keys if earlier and event[key] != earlier[key]]

    def of_denoise(index: int, event: Event, latents: Event | None) -> list[str]:
        sound = not latents or free_axes(event["shape"]) == free_axes(latents["shape"])
        return [] if sound else ["shape"]

    def of_decode(index: int, event: Event, earlier: Event | None) -> list[str]:
        return ["shape"] if earlier and event["shape"][0] != earlier["shape"][0] else []

    rules = {"step": of_step, "denoise": of_denoise, "decode": of_decode, **other}
    found: list[tuple[int, str]] = []
    for index, event in enumerate(tuple(events)):
        stage = event["stage"]
        if stage in rules:
            earlier = compared_with(events, index, first=stage == "denoise")
            found += [(index, key) for key in rules[stage](index, event, earlier)]
        found += rules["finite"](index, event) if "finite" in other else _not_finite(index, event)
    return found


def _not_finite(index: int, event: Event) -> list[tuple[int, str]]:
    return [] if event["finite"] else [(index, "finite")]


def contract(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("10.3", name, replaces="contract_errors", reads=CONTRACTS)


@contract("compared-with-the-first-step")
def with_the_first(events: list[Event]) -> list[tuple[int, str]]:
    """Every step was compared with the first. One change is then told again and again; the step
    before says where it happened."""
    first = next((event for event in events if event["stage"] == "step"), {})
    keys = ("shape", "dtype", "device")
    return breaches(
        events, step=lambda i, event, earlier: [k for k in keys if event[k] != first[k]]
    )


@contract("one-breach-of-each-step")
def one_each(events: list[Event]) -> list[tuple[int, str]]:
    """Only the first field of an event was told. Shape, dtype and device may change at once, and it
    helps to know that they did."""
    seen: dict[int, str] = {}
    for index, field in breaches(events):
        seen.setdefault(index, field)
    return list(seen.items())


@contract("first-breach-alone")
def first_alone(events: list[Event]) -> list[tuple[int, str]]:
    """Only the first breach was told. The answer is a list of all."""
    return breaches(events)[:1]


@contract("device-not-compared")
def device_ignored(events: list[Event]) -> list[tuple[int, str]]:
    """The device of a step was not compared. Latents that move to another device wait there for a
    copy in every turn."""
    keys = ("shape", "dtype")
    return breaches(
        events, step=lambda i, event, e: [key for key in keys if e and event[key] != e[key]]
    )


@contract("prediction-compared-with-the-next-step")
def with_the_next(events: list[Event]) -> list[tuple[int, str]]:
    """A prediction was compared with the step after it. If that step goes wrong, the prediction
    before it is blamed; it was made for the latents that were there."""

    def rule(index: int, event: Event, latents: Event | None) -> list[str]:
        after = next((e for e in events[index:] if e["stage"] == "step"), None)
        return ["shape"] if after and free_axes(event["shape"]) != free_axes(after["shape"]) else []

    return breaches(events, denoise=rule)


@contract("tokens-have-no-sides")
def no_sides(events: list[Event]) -> list[tuple[int, str]]:
    """Of tokens, (B, N, C), the channels were compared and not the number of tokens. N is what
    height and width have become."""

    def rule(index: int, event: Event, latents: Event | None) -> list[str]:
        return ["shape"] if latents and event["shape"][2:] != latents["shape"][2:] else []

    return breaches(events, denoise=rule)


@contract("whole-shapes-of-predictions")
def whole_shapes(events: list[Event]) -> list[tuple[int, str]]:
    """The whole shape of a prediction was compared. Guidance has twice the rows, and a network that
    predicts a variance twice the channels: only the sides are fixed."""

    def rule(index: int, event: Event, latents: Event | None) -> list[str]:
        return ["shape"] if latents and event["shape"] != latents["shape"] else []

    return breaches(events, denoise=rule)


@contract("channels-must-agree")
def channels_too(events: list[Event]) -> list[tuple[int, str]]:
    """Everything behind the batch was compared. The channels are free as well: some networks
    predict twice as many."""

    def rule(index: int, event: Event, latents: Event | None) -> list[str]:
        return ["shape"] if latents and event["shape"][1:] != latents["shape"][1:] else []

    return breaches(events, denoise=rule)


@contract("last-two-axes")
def last_two(events: list[Event]) -> list[tuple[int, str]]:
    """The last two axes were taken for the sides. Videos have frames before them, and the last axis
    of tokens are channels."""

    def rule(index: int, event: Event, latents: Event | None) -> list[str]:
        return ["shape"] if latents and event["shape"][-2:] != latents["shape"][-2:] else []

    return breaches(events, denoise=rule)


@contract("first-prediction-not-compared")
def first_not_compared(events: list[Event]) -> list[tuple[int, str]]:
    """The first prediction was not compared, because no step comes before it. The first step after
    it tells the same sides."""

    def rule(index: int, event: Event, latents: Event | None) -> list[str]:
        earlier = compared_with(events, index, first=False)
        sound = not earlier or free_axes(event["shape"]) == free_axes(earlier["shape"])
        return [] if sound else ["shape"]

    return breaches(events, denoise=rule)


@contract("dtype-of-the-decoder")
def decoder_dtype(events: list[Event]) -> list[tuple[int, str]]:
    """The decoder's dtype was compared. A VAE may work in float32 where the network does not."""

    def rule(index: int, event: Event, earlier: Event | None) -> list[str]:
        if not earlier:
            return []
        wrong = ["shape"] if event["shape"][0] != earlier["shape"][0] else []
        return wrong + (["dtype"] if event["dtype"] != earlier["dtype"] else [])

    return breaches(events, decode=rule)


@contract("batch-of-the-decoder-free")
def decoder_free(events: list[Event]) -> list[tuple[int, str]]:
    """The decoder's batch was not looked at. Rows that guidance added must be gone by then."""
    return breaches(events, decode=lambda index, event, earlier: [])


@contract("batch-of-the-network-decoded")
def decoder_as_network(events: list[Event]) -> list[tuple[int, str]]:
    """The decoder's batch was compared with the network's, which guidance has doubled. Compare it
    with the step's."""

    def rule(index: int, event: Event, earlier: Event | None) -> list[str]:
        rows = [e["shape"][0] for e in events[:index] if e["stage"] == "denoise"]
        return ["shape"] if rows and event["shape"][0] != rows[-1] else []

    return breaches(events, decode=rule)


@contract("finite-at-steps-alone")
def finite_steps(events: list[Event]) -> list[tuple[int, str]]:
    """Only steps were asked whether they are finite. A VAE in float16 is where it often begins,
    after the last step."""

    def rule(index: int, event: Event) -> list[tuple[int, str]]:
        return _not_finite(index, event) if event["stage"] == "step" else []

    return breaches(events, finite=rule)


@contract("sorted-by-the-field")
def by_field(events: list[Event]) -> list[tuple[int, str]]:
    """The breaches of one event are in the order of the alphabet. They are told as shape, dtype,
    device, finite."""
    return sorted(breaches(events))


@contract("a-step-is-needed")
def step_needed(events: list[Event]) -> list[tuple[int, str]]:
    """A trace without a step could not be read. A run may end before its first one, and that is
    when somebody looks at the trace."""
    steps = [event for event in events if event["stage"] == "step"]
    first = steps[0]
    return breaches(events) if first else []


FIELDS = ("name", "stage", "shape", "dtype", "finite")


def apart(mine: Event, theirs: Event) -> bool:
    share = abs(mine["mean_abs"] - theirs["mean_abs"]) / max(abs(theirs["mean_abs"]), 1e-300)
    return bool(mine["finite"]) and share > 1e-3


def parts(
    events: list[Event],
    reference: list[Event],
    fields: tuple[str, ...] = FIELDS,
    far: Callable[[Event, Event], bool] = apart,
) -> tuple[int, str] | None:
    """The compact twin."""
    index = -1
    for mine, theirs in zip(events, reference, strict=False):
        index += 1
        wrong = [key for key in fields if mine[key] != theirs[key]]
        wrong += ["mean_abs"] if far(mine, theirs) else []
        if wrong:
            return index, wrong[0]
    shorter, longer = sorted([len(events), len(reference)])
    return None if shorter == longer else (shorter, "length")


def divergence(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("10.3", name, replaces="first_divergence", reads=PARTING)


Where = tuple[int, str] | None


@divergence("numbers-before-shapes")
def numbers_first(events: list[Event], reference: list[Event]) -> Where:
    """mean_abs was looked at first. Where name or shape differ, different numbers are no news."""
    at = parts(events, reference)
    if at and at[1] != "length" and apart(events[at[0]], reference[at[0]]):
        return at[0], "mean_abs"
    return at


@divergence("devices-compared")
def devices_compared(events: list[Event], reference: list[Event]) -> Where:
    """The devices were compared. Where a run took place is no difference in what it computed."""
    return parts(events, reference, (*FIELDS, "device"))


@divergence("times-compared")
def times_compared(events: list[Event], reference: list[Event]) -> Where:
    """The times were compared. No two runs take equally long."""
    return parts(events, reference, (*FIELDS, "seconds"))


@divergence("names-not-compared")
def names_not_compared(events: list[Event], reference: list[Event]) -> Where:
    """The names were not compared. Two text encoders that change places are two runs that part."""
    return parts(events, reference, FIELDS[1:])


@divergence("bytes-for-shape-and-dtype")
def bytes_instead(events: list[Event], reference: list[Event]) -> Where:
    """Bytes were compared in place of shape and dtype. float16 and bfloat16 have as many bytes."""
    at = parts(events, reference, ("name", "stage", "bytes", "finite"))
    return at and (at[0], "shape" if at[1] == "bytes" else at[1])


@divergence("to-the-last-bit")
def to_the_bit(events: list[Event], reference: list[Event]) -> Where:
    """mean_abs was compared to the last bit. Two machines add in two orders: allow ROUNDING."""
    return parts(events, reference, far=lambda a, b: a["finite"] and a["mean_abs"] != b["mean_abs"])


@divergence("rounding-not-a-share")
def not_a_share(events: list[Event], reference: list[Event]) -> Where:
    """ROUNDING was taken for a difference. It is a share: large numbers round by more, and small
    ones that are off by half pass unseen."""
    return parts(
        events,
        reference,
        far=lambda a, b: a["finite"] and abs(a["mean_abs"] - b["mean_abs"]) > 1e-3,
    )


@divergence("only-larger-is-different")
def only_larger(events: list[Event], reference: list[Event]) -> Where:
    """A smaller mean_abs was taken for the same. A difference has two directions."""

    def far(mine: Event, theirs: Event) -> bool:
        return apart(mine, theirs) and bool(mine["mean_abs"] > theirs["mean_abs"])

    return parts(events, reference, far=far)


@divergence("last-divergence")
def last_one(events: list[Event], reference: list[Event]) -> Where:
    """The last event that differs was told. What comes after the first difference follows from
    it."""
    for index in reversed(range(min(len(events), len(reference)))):
        at = parts(events[index : index + 1], reference[index : index + 1])
        if at:
            return index, at[1]
    return parts(events, reference)


@divergence("lengths-first")
def lengths_first(events: list[Event], reference: list[Event]) -> Where:
    """Lengths were compared before anything else, and the answer was their difference's place. Look
    for an event that differs first."""
    if len(reference) != len(events):
        return max(len(events), len(reference)), "length"
    return parts(events, reference)


@divergence("the-rest-not-missed")
def rest_not_missed(events: list[Event], reference: list[Event]) -> Where:
    """One trace ended early and nobody noticed: zip stops with the shorter one."""
    least = min(len(events), len(reference))
    return parts(events[:least], reference[:least])


@divergence("nan-differs-from-nan")
def nan_differs(events: list[Event], reference: list[Event]) -> Where:
    """Two events that are both not finite were said to differ in mean_abs. NaN equals nothing, not
    even itself; that both have it is what they agree on."""
    return parts(events, reference, far=lambda a, b: not a["finite"] or apart(a, b))


# 10.4


def drawn(events: list[Event], **other: Callable[..., Any]) -> dict[str, Any]:
    """The compact twin; `other` exchanges parts."""
    use: dict[str, Callable[..., Any]] = {
        "us": lambda seconds: 1e6 * seconds,
        "row": lambda event: ORDER.index(event["stage"]),
        "cat": lambda event: event["stage"],
        "at": lambda event: event["start"] + event["seconds"],
        "mean": lambda value: value if math.isfinite(value) else None,
        "count": lambda events, i: events[i]["bytes"],
        "args": lambda args: args,
        "lasts": lambda event: event["seconds"],
        **other,
    }
    lines: list[Event] = []
    for i, event in enumerate(events):
        rest = dict(event)
        for key in ("name", "stage", "start", "seconds"):
            del rest[key]
        rest["mean_abs"] = use["mean"](rest["mean_abs"])
        line = {"ph": "X", "pid": 0, "tid": use["row"](event), "name": event["name"]}
        line |= {"cat": use["cat"](event), "ts": use["us"](event["start"])}
        lines.append(line | {"dur": use["us"](use["lasts"](event)), "args": use["args"](rest)})
        counter = {"ph": "C", "pid": 0, "name": "bytes", "ts": use["us"](use["at"](event))}
        lines.append(counter | {"args": {"bytes": use["count"](events, i)}})
    return {"traceEvents": lines}


def bars(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("10.4", name, replaces="chrome_trace", reads=BARS)


@bars("seconds-for-microseconds")
def in_seconds(events: list[Event]) -> dict[str, Any]:
    """The times are seconds. The format counts in microseconds: the run looks a million times too
    short."""
    return drawn(events, us=lambda seconds: seconds)


@bars("milliseconds-for-microseconds")
def in_milliseconds(events: list[Event]) -> dict[str, Any]:
    """The times are milliseconds. The viewer shows milliseconds, the file holds microseconds."""
    return drawn(events, us=lambda seconds: 1e3 * seconds)


@bars("end-for-dur")
def end_for_dur(events: list[Event]) -> dict[str, Any]:
    """dur is the time at which the bar ends. It is the bar's length."""
    return drawn(events, lasts=lambda event: event["start"] + event["seconds"])


@bars("all-in-one-row")
def one_row_for_all(events: list[Event]) -> dict[str, Any]:
    """All bars have one tid. A row for each stage shows at a glance who owns the time."""
    return drawn(events, row=lambda event: 0)


@bars("name-for-category")
def name_for_category(events: list[Event]) -> dict[str, Any]:
    """cat is the component's name. The category is the stage, so that all of a stage can be
    picked."""
    return drawn(events, cat=lambda event: event["name"])


@bars("counter-at-the-start")
def counter_at_start(events: list[Event]) -> dict[str, Any]:
    """The counter changes when the component is called. The tensor is there when it is done."""
    return drawn(events, at=lambda event: event["start"])


@bars("bytes-added-up")
def added_up(events: list[Event]) -> dict[str, Any]:
    """The counter adds the bytes up. It holds those of one boundary; latents are replaced, not
    collected."""
    return drawn(events, count=lambda events, i: sum(e["bytes"] for e in events[: i + 1]))


@bars("nan-in-json")
def nan_in_json(events: list[Event]) -> dict[str, Any]:
    """NaN was left in args. Python writes it, JSON has no such word, and the viewer refuses the
    whole file: None."""
    return drawn(events, mean=lambda value: value)


@bars("nan-as-text")
def nan_as_text(events: list[Event]) -> dict[str, Any]:
    """A number that is not finite became a text. A viewer that adds numbers stumbles on it:
    None."""
    return drawn(events, mean=lambda value: value if math.isfinite(value) else str(value))


@bars("bytes-alone-in-args")
def bytes_alone(events: list[Event]) -> dict[str, Any]:
    """args holds the bytes alone. Shape, device and dtype are what one clicks on a bar for."""
    return drawn(events, args=lambda args: {"bytes": args["bytes"]})


@bars("events-used-up")
def used_up(events: list[Event]) -> dict[str, Any]:
    """The fields were taken out of the events themselves, which are then useless to the next
    reader. Make new dicts."""
    answer = drawn(events)
    for event in events:
        for key in ("name", "stage", "start", "seconds"):
            del event[key]
    return answer


@bars("bars-without-counters")
def no_counters(events: list[Event]) -> dict[str, Any]:
    """There are bars and no counters. The bytes over time are a "C" entry for each event."""
    entries = drawn(events)["traceEvents"]
    return {"traceEvents": [entry for entry in entries if entry["ph"] == "X"]}


# 10.5


def costs(events: list[Event]) -> dict[str, Event]:
    """The compact twin's table."""
    table: dict[str, Event] = {}
    for stage in dict.fromkeys(event["stage"] for event in events):
        own = [event for event in events if event["stage"] == stage]
        sizes = [event["bytes"] for event in own]
        table[stage] = {"calls": len(own), "bytes": sum(sizes), "largest": max(sizes)}
        table[stage]["seconds"] = math.fsum(event["seconds"] for event in own)
    return table


def accounted(events: list[Event], **other: Any) -> dict[str, Any]:
    """The compact twin; `other` says something else."""
    table = costs(events)
    sizes = [event["bytes"] for event in events]
    owner = max(table, key=lambda stage: table[stage]["seconds"], default=None)
    largest = sizes.index(max(sizes)) if sizes else None
    return {"stages": table, "latency_owner": owner, "largest_boundary": largest} | other


def accounts(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("10.5", name, replaces="account", reads=OWNER)


@accounts("longest-call-owns")
def longest_call(events: list[Event]) -> dict[str, Any]:
    """The stage with the longest single call was named. Many short calls can take longer: add
    up."""
    longest = max(events, key=lambda event: event["seconds"], default={"stage": None})
    return accounted(events, latency_owner=longest["stage"])


@accounts("last-of-equals")
def last_of_equals(events: list[Event]) -> dict[str, Any]:
    """Of equals the last one was told. Take the one that comes first."""
    table, count = costs(events), len(events)
    owner = max(reversed(table), key=lambda stage: table[stage]["seconds"], default=None)
    largest = max(reversed(range(count)), key=lambda i: events[i]["bytes"], default=None)
    return accounted(events, latency_owner=owner, largest_boundary=largest)


@accounts("most-calls-own")
def most_calls(events: list[Event]) -> dict[str, Any]:
    """The stage that was called most was named. A step is called as often as the network and takes
    a hundredth of its time."""
    table = costs(events)
    return accounted(
        events, latency_owner=max(table, key=lambda stage: table[stage]["calls"], default=None)
    )


@accounts("mean-owns")
def mean_owns(events: list[Event]) -> dict[str, Any]:
    """Stages were compared by the mean of their calls. What somebody waits for is the sum."""
    table = costs(events)
    means = {stage: row["seconds"] / row["calls"] for stage, row in table.items()}
    return accounted(events, latency_owner=max(means, key=lambda stage: means[stage], default=None))


@accounts("bytes-own")
def bytes_own(events: list[Event]) -> dict[str, Any]:
    """The stage with the most bytes was taken for the owner of the latency. Those are two
    questions: latents are small and what makes them takes long."""
    table = costs(events)
    return accounted(
        events, latency_owner=max(table, key=lambda stage: table[stage]["bytes"], default=None)
    )


@accounts("seconds-of-the-last-call")
def last_call(events: list[Event]) -> dict[str, Any]:
    """seconds is that of the last call. It is the sum over all calls of the stage."""
    table = costs(events)
    for event in events:
        table[event["stage"]]["seconds"] = event["seconds"]
    return accounted(events, stages=table)


@accounts("mean-seconds")
def mean_seconds(events: list[Event]) -> dict[str, Any]:
    """seconds is the mean of the calls. It is their sum."""
    table = costs(events)
    for row in table.values():
        row["seconds"] /= row["calls"]
    return accounted(events, stages=table)


@accounts("largest-in-all")
def largest_in_all(events: list[Event]) -> dict[str, Any]:
    """largest is the sum of the bytes. It is the most that one call of the stage gave."""
    table = costs(events)
    return accounted(events, stages={s: {**r, "largest": r["bytes"]} for s, r in table.items()})


@accounts("bytes-of-one-call")
def bytes_of_one(events: list[Event]) -> dict[str, Any]:
    """bytes is what one call gave. It is the sum over all calls: what crossed this boundary in
    all."""
    table = costs(events)
    return accounted(events, stages={s: {**r, "bytes": r["largest"]} for s, r in table.items()})


@accounts("every-stage-listed")
def every_stage(events: list[Event]) -> dict[str, Any]:
    """Stages that never occurred are listed with zeros. List those that did."""
    nothing = {"calls": 0, "bytes": 0, "largest": 0, "seconds": 0.0}
    return accounted(events, stages={stage: dict(nothing) for stage in ORDER} | costs(events))


@accounts("stage-for-the-boundary")
def stage_for_boundary(events: list[Event]) -> dict[str, Any]:
    """The largest boundary is a stage's name. It is one event: its index."""
    largest = max(events, key=lambda event: event["bytes"], default={"stage": None})
    return accounted(events, largest_boundary=largest["stage"])


@accounts("boundary-of-the-heaviest-stage")
def heaviest_stage(events: list[Event]) -> dict[str, Any]:
    """The boundary was looked for in the stage with the most bytes in all. One large tensor may
    stand alone in another."""
    table = costs(events)
    heavy = max(table, key=lambda stage: table[stage]["bytes"], default=None)
    sizes = [event["bytes"] if event["stage"] == heavy else -1 for event in events]
    return accounted(events, largest_boundary=sizes.index(max(sizes)) if sizes else None)


@accounts("stages-in-their-usual-order")
def usual_order(events: list[Event]) -> dict[str, Any]:
    """Of equal stages the one that is first in STAGES was told. The one that occurs first
    counts."""
    table = costs(events)
    usual = sorted(table, key=ORDER.index)
    owner = max(usual, key=lambda stage: table[stage]["seconds"], default=None)
    return accounted(events, latency_owner=owner)
