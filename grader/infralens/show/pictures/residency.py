"""Residency (lab 08 of diffsynth): bytes on the device in one pass, and codes beside torch's."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from infralens.examiner.compare.describe import kind
from infralens.show.pictures.answers import NotDrawnError, number, tensor
from infralens.show.pictures.look import INK, LIBRARY, MINE, plain, sheet

ROOT = 47  # of Wan 14B, in hundredths of a gigabyte; its blocks have 70 each
BLOCKS = (70, 70, 70, 35, 70, 70)
BITS = range(2, 9)
ROWS, COLUMNS = 8, 64


def draw(mine: Any, seed: int) -> Figure:
    """Left what is on the device, event by event; right the error of the learner's codes."""
    figure = sheet(9.6, 4.2, "Residency · a schedule, and what codes cost")
    left = figure.add_axes((0.075, 0.14, 0.4, 0.73))
    right = figure.add_axes((0.585, 0.14, 0.39, 0.73))
    groups = {"": ROOT, **{f"blocks.{i}": size for i, size in enumerate(BLOCKS)}}
    for prefetch, style in ((False, ":"), (True, "-")):
        answer = mine.group_events(groups, list(groups)[1:], prefetch, False)
        bytes_ = resident(answer, groups)
        name = "with prefetch" if prefetch else "without"
        left.step(
            range(len(bytes_)), bytes_, style, where="post", color=MINE, label=f"{name}, yours"
        )
    everything = sum(groups.values()) / 100
    left.axhline(everything, color=INK, linewidth=1, linestyle="--", label="everything resident")
    plain(left, "events of one pass", "gigabytes on the device")
    left.set_ylim(0, everything * 1.45)
    left.legend(fontsize=8, frameon=False, loc="upper left")
    errors(right, mine, seed)
    return figure


def resident(answer: Any, groups: dict[str, int]) -> list[float]:
    """Gigabytes after each event of an answer that is looked at before it is used."""
    events = answer.get("events") if isinstance(answer, dict) else None
    if not isinstance(events, list | tuple) or len(events) > 4 * len(groups):
        raise NotDrawnError(f"`group_events` gave {kind(answer)} without a list of events.")
    bytes_ = [0.0]
    for event in events:
        pair = list(event) if isinstance(event, list | tuple) else []
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise NotDrawnError(f"`group_events` gave {kind(event)} for an event.")
        if pair[0] not in ("on", "off") or pair[1] not in groups:
            raise NotDrawnError(f"`group_events` gave {kind(event)} for an event.")
        step = groups[pair[1]] / 100
        bytes_.append(bytes_[-1] + (step if pair[0] == "on" else -step))
    return [number(value, "group_events") for value in bytes_]


def errors(axes: Any, mine: Any, seed: int) -> None:
    """The mean error of a weight with one large number, over bits, by whole rows and by groups."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(ROWS, COLUMNS, generator=generator)
    weight[:, 5] *= 8
    for group, marker, name in ((COLUMNS, "o", "whole rows"), (16, "s", "groups of 16")):
        values, library = [], []
        for bits in BITS:
            answer = mine.quantize(weight, bits, group)
            if not isinstance(answer, list | tuple) or len(answer) != 2:
                raise NotDrawnError(f"`quantize` gave {kind(answer)}; a pair is drawn.")
            codes = tensor(answer[0], (ROWS, COLUMNS), "quantize").to(torch.int8)
            scales = tensor(answer[1], (ROWS, COLUMNS // group), "quantize").float()
            back = tensor(mine.dequantize(codes, scales), (ROWS, COLUMNS), "dequantize")
            values.append(float((back - weight).abs().mean()))
            library.append(float((rounded(weight, bits, group) - weight).abs().mean()))
        axes.plot(BITS, library, color=LIBRARY, linewidth=6, alpha=0.3)
        axes.plot(
            BITS, values, marker, color=MINE, markersize=8, mfc="none", label=f"{name}, yours"
        )
    axes.plot([], [], color=LIBRARY, linewidth=6, label="torch")
    plain(axes, "bits of a code", "mean error of a weight")
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False, loc="upper right")


def rounded(weight: Tensor, bits: int, group: int) -> Tensor:
    """The weight after torch rounded it to codes and back, a channel for each group."""
    q = 2 ** (bits - 1) - 1
    channels = weight.reshape(-1, group)
    scales = channels.abs().amax(1) / q
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(channels, scales, zeros, 0, -q - 1, q).reshape(
        weight.shape
    )
