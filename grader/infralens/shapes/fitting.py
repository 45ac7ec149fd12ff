"""A training loop that can be stopped at any moment and goes on where it was.

All chance in a step comes from a generator seeded with the step's number, so a run that was
interrupted ends with the same weights as one that was not (up to the order of float additions).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

SAVE_EVERY = 60.0
"""Seconds between two checkpoints."""


UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, UnpicklingError)
"""What torch.load and the copying of its tensors raise for a file that is not as it was saved."""


class CheckpointError(Exception):
    """A checkpoint that cannot be gone on from; the text says what to do."""


@dataclass(frozen=True)
class Schedule:
    """How long a stage trains and how fast it learns."""

    steps: int
    batch: int
    rate: float
    warmup: int = 100
    ema: float = 0.0
    """Decay of the moving average of the weights; 0 keeps no average."""

    def factor(self, step: int) -> float:
        """Linear warm-up, then half a cosine down to 2 % of the rate."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


@dataclass(frozen=True)
class Outcome:
    """What a finished stage took."""

    steps: int
    loss: float
    seconds: float


def step_generator(seed: int, step: int) -> torch.Generator:
    """The source of chance for one step, on the CPU so that every device sees the same draws."""
    return torch.Generator().manual_seed(seed * 1_000_003 + step)


def fit(
    name: str,
    checkpoint: Path,
    module: nn.Module,
    schedule: Schedule,
    loss_of: Callable[[int], Tensor],
    trained: Iterable[nn.Parameter] | None = None,
    on_interval: Callable[[int], None] | None = None,
    interval: int = 0,
    save_every: float = SAVE_EVERY,
) -> Outcome:
    """Train `module` in place with AdamW and leave it with its averaged weights.

    `loss_of(step)` gives the loss of one batch. `on_interval` is called every `interval` steps
    with the averaged weights in place. The state lives in `checkpoint`; a finished stage is
    loaded, not trained again.
    """
    parameters: list[Tensor] = list(module.parameters() if trained is None else trained)
    optimizer = torch.optim.AdamW(
        parameters, lr=schedule.rate, betas=(0.9, 0.99), weight_decay=1e-3
    )
    average = [p.detach().clone() for p in parameters]
    first, smooth, seconds = 0, 0.0, 0.0
    if checkpoint.exists():
        try:
            state: dict[str, Any] = torch.load(checkpoint, map_location="cpu", weights_only=True)
            _copy(state["weights"], parameters)
            _copy(state["average"], average)
            optimizer.load_state_dict(state["optimizer"])
            first, smooth, seconds = state["step"], state["loss"], state["seconds"]
        except UNREADABLE:
            raise CheckpointError(
                f"{checkpoint} is damaged or belongs to other networks; without it the stage "
                f"{name!r} is trained from its beginning"
            ) from None

    def save(step: int) -> None:
        part = checkpoint.with_suffix(".part")
        torch.save(
            {
                "weights": [p.detach().cpu() for p in parameters],
                "average": [p.cpu() for p in average],
                "optimizer": optimizer.state_dict(),
                "step": step,
                "loss": smooth,
                "seconds": seconds,
            },
            part,
        )
        # Replacing in one move: a run killed while it saves still finds the previous state.
        part.replace(checkpoint)

    module.train()
    bar = tqdm(
        range(first, schedule.steps), name, initial=first, total=schedule.steps, mininterval=2.0
    )
    last_save = last_tick = time.monotonic()
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate * schedule.factor(step)
        loss = loss_of(step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        # A short average early on, so that the first weights are soon forgotten.
        decay = min(schedule.ema, (1 + step) / (10 + step))
        with torch.no_grad():
            torch._foreach_lerp_(average, parameters, 1.0 - decay)
        value = loss.item()
        smooth = value if step == 0 else 0.98 * smooth + 0.02 * value
        now = time.monotonic()
        seconds += now - last_tick
        last_tick = now
        if step % 20 == 0:
            bar.set_postfix(loss=f"{smooth:.4f}")
        if now - last_save >= save_every:
            save(step + 1)
            last_save = now
        if on_interval and interval and (step + 1) % interval == 0 and step + 1 < schedule.steps:
            held = [p.detach().clone() for p in parameters]
            _copy(average, parameters)
            module.eval()
            on_interval(step + 1)
            module.train()
            _copy(held, parameters)
            last_tick = time.monotonic()
    if first < schedule.steps:
        save(schedule.steps)
    _copy(average, parameters)
    module.eval()
    return Outcome(schedule.steps, smooth, seconds)


def _copy(source: list[Tensor], target: Iterable[Tensor]) -> None:
    with torch.no_grad():
        for into, value in zip(target, source, strict=True):
            into.copy_(value)
