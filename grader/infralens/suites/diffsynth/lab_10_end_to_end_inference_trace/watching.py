"""The examiner's own instruments: what a pipeline's components give, seen from here."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from infralens import shapes
from infralens.examiner import quiet_transformers

# The suite built the pipelines, so it may know them by their names.
PLACES = {
    **dict.fromkeys(("text_encoder", "text_encoder_2", "reader"), "encode"),
    **dict.fromkeys(("unet", "transformer", "thinker"), "denoise"),
    **dict.fromkeys(("scheduler", "clock"), "step"),
    **dict.fromkeys(("vae", "painter"), "decode"),
}
Event = dict[str, Any]


@functools.cache
def files(*names: str) -> dict[str, bytes]:
    """The files of these components of the shipped pipeline, named by their paths in its folder."""
    paths = [path for name in names for path in (shapes.FOLDER / name).iterdir()]
    return {path.relative_to(shapes.FOLDER).as_posix(): path.read_bytes() for path in paths}


@functools.cache
def ours() -> Any:
    """What is given to the candidate, on this side."""
    quiet_transformers()
    from infralens.suites.diffsynth.lab_10_end_to_end_inference_trace import given

    return given


@dataclass
class Seen:
    """A run of the library: the picture, and the first tensor of every result on the way."""

    image: Tensor = field(default_factory=lambda: torch.empty(0))
    tensors: list[tuple[str, str, Tensor]] = field(default_factory=list)

    @functools.cached_property
    def events(self) -> list[Event]:
        """Each tensor described, without times."""
        return [described(*seen) for seen in self.tensors]


def described(name: str, stage: str, tensor: Tensor) -> Event:
    """What is to be said of a tensor, apart from times."""
    size = torch.empty((), dtype=tensor.dtype).element_size()
    kept = tensor.double()
    return {
        "name": name,
        "stage": stage,
        "shape": [int(n) for n in tensor.shape],
        "device": torch.device(tensor.device).type,
        "dtype": repr(tensor.dtype).split(".")[-1],
        "bytes": size * len(tensor.flatten()),
        "finite": not bool((kept.isnan() | kept.isinf()).any()),
        "mean_abs": kept.abs().sum().item() / max(kept.numel(), 1),
    }


@contextmanager
def instruments(pipe: Any, seen: Seen) -> Iterator[None]:
    """Note what the components give: hooks on networks, patched methods on the others."""
    with ExitStack() as undo:
        for name, part in pipe.components.items():
            stage = PLACES.get(name)
            if stage is None:
                continue
            note = functools.partial(noted, seen, name, stage)
            if stage in ("encode", "denoise"):
                undo.callback(part.register_forward_hook(functools.partial(hooked, note)).remove)
            else:
                method = "decode" if stage == "decode" else "step"
                undo.enter_context(patch.object(part, method, through(part, method, note)))
        yield


def noted(seen: Seen, name: str, stage: str, result: Any) -> None:
    """Keep the first tensor of a result."""
    parts = result.values() if isinstance(result, dict) else result
    tensor = result if isinstance(result, Tensor) else next(iter(parts))
    seen.tensors.append((name, stage, tensor.clone()))


def hooked(note: Any, network: Any, args: Any, result: Any) -> None:
    note(result)


def through(part: Any, method: str, note: Any) -> Any:
    inner = getattr(part, method)

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        note(result)
        return result

    return outer


def watched(pipe: Any, prompt: Any, steps: int, generator: Any, call: dict[str, Any]) -> Seen:
    """One run of a pipeline with the instruments on."""
    seen = Seen()
    with instruments(pipe, seen):
        seen.image = ours().plain_run(pipe, prompt, steps, generator, call)
    seen.tensors.append(("image", "output", seen.image))
    return seen
