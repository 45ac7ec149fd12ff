"""The trace (lab 10 of diffsynth): a run as a timeline of stages, and the bytes handed on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from infralens.examiner.candidate.proxies import given
from infralens.shapes import FOLDER
from infralens.shapes.sampling import load_pipeline
from infralens.show.pictures.answers import NotDrawnError, number
from infralens.show.pictures.look import LIBRARY, MINE, SERIES, plain, sheet

BESIDE = Path(__file__).with_name("beside_pipeline.py").read_text(encoding="utf-8")
STAGES = ("encode", "denoise", "step", "decode", "output")
PROMPT, STEPS = "a large red star on navy background", 6
MOST_EVENTS = 1000  # of a trace that is drawn
Bar = tuple[float, float, int]  # begin and length in ms, row


def draw(mine: Any, seed: int) -> Figure:
    """The learner's bars on a row a stage, and bytes event by event on those of diffusers."""
    files = {p.relative_to(FOLDER).as_posix(): p for p in FOLDER.rglob("*") if p.is_file()}
    pipe = given(mine, BESIDE).pipeline({name: path.read_bytes() for name, path in files.items()})
    answer = mine.trace(pipe, PROMPT, STEPS, torch.Generator().manual_seed(seed))
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise NotDrawnError("`trace` gave no pair of image and events.")
    bars, sizes = _entries(mine.chrome_trace(answer[1]))
    right = _library(seed)

    figure = sheet(9.6, 6.2, f"The trace · where a run of {STEPS} steps spends its time and bytes")
    axes = figure.add_axes((0.1, 0.56, 0.875, 0.34))
    for begin, length, stage in bars:
        axes.barh(
            stage, length, left=begin, height=0.7, color=SERIES[stage], edgecolor=SERIES[stage]
        )
    axes.set_yticks(range(len(STAGES)), STAGES)
    axes.set_ylim(len(STAGES) - 0.5, -0.5)
    axes.set_xlim(left=0)
    plain(axes, "milliseconds since the trace began, yours", "")
    bytes_axes = figure.add_axes((0.1, 0.09, 0.875, 0.35))
    wide = {"color": LIBRARY, "linewidth": 6, "alpha": 0.3}
    bytes_axes.step(range(len(right)), right, where="mid", label="diffusers", **wide)
    bytes_axes.step(range(len(sizes)), sizes, where="mid", color=MINE, label="yours")
    bytes_axes.set_yscale("log", base=2)
    plain(bytes_axes, "event, in the order in which they happened", "bytes handed on")
    bytes_axes.legend(fontsize=8, frameon=False)
    return figure


def _entries(told: Any) -> tuple[list[Bar], list[float]]:
    """The bars and the values of the counter in the learner's file for Perfetto."""
    entries = told.get("traceEvents") if isinstance(told, dict) else None
    if not isinstance(entries, list) or len(entries) > MOST_EVENTS:
        raise NotDrawnError("`chrome_trace` gave no list of traceEvents that can be drawn.")
    bars, sizes = [], []
    for entry in entries:
        kind = entry.get("ph") if isinstance(entry, dict) else None
        if kind == "X":
            begin, length, row = (
                number(entry.get(key), f"chrome_trace: {key}") for key in ("ts", "dur", "tid")
            )
            bars.append((begin / 1000, length / 1000, _row(row)))
        elif kind == "C":
            args = entry.get("args")
            value = args.get("bytes") if isinstance(args, dict) else None
            sizes.append(max(number(value, "chrome_trace: bytes"), 1.0))
    return bars, sizes


def _row(tid: float) -> int:
    if tid not in range(len(STAGES)):
        raise NotDrawnError(f"`chrome_trace` gave a bar the row {tid:g}; there are 0 to 4.")
    return int(tid)


def _library(seed: int) -> list[float]:
    """The bytes of what each component gave in the same run, seen from here."""
    pipe = load_pipeline(FOLDER)
    sizes: list[float] = []

    def note(tensor: Tensor) -> None:
        sizes.append(float(math.prod(tensor.shape) * tensor.element_size()))

    hooks = [
        network.register_forward_hook(lambda _, args, result: note(result[0]))
        for network in (pipe.text_encoder, pipe.unet)
    ]
    step, decode = pipe.scheduler.step, pipe.vae.decode

    def noted_step(model_output: Any, timestep: Any, sample: Any, **more: Any) -> Any:
        made = step(model_output, timestep, sample, **more)
        note(made[0])
        return made

    def noted_decode(*args: Any, **more: Any) -> Any:
        made = decode(*args, **more)
        note(made[0])
        return made

    pipe.scheduler.step, pipe.vae.decode = noted_step, noted_decode
    generator = torch.Generator().manual_seed(seed)
    note(pipe(PROMPT, num_inference_steps=STEPS, generator=generator, output_type="pt").images)
    for hook in hooks:
        hook.remove()
    return sizes
