"""Model loading (lab 02 of diffsynth): what is read of a file, beside what safetensors needs."""

from __future__ import annotations

import json
import struct
from typing import Any

import safetensors.torch
import torch
from matplotlib.figure import Figure

from infralens.show.pictures.answers import tensor
from infralens.show.pictures.look import LIBRARY, MINE, plain, sheet

ROWS, COLUMNS = 8, 16


def draw(mine: Any, seed: int) -> Figure:
    """Bytes that were read for rows of two tensors as rings, on those that the rows have."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(ROWS, COLUMNS, generator=generator)
    data: bytes = safetensors.torch.save({"half": numbers.half(), "whole": numbers})
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    figure = sheet(9.6, 4.2, "Model loading · bytes read for some rows of a tensor")
    for i, name in enumerate(("half", "whole")):
        axes = figure.add_axes((0.085 + 0.5 * i, 0.14, 0.39, 0.73))
        said = header[name]
        begin, end = (8 + length + offset for offset in said["data_offsets"])
        entry = (said["dtype"], said["shape"], begin, end)
        counts, right = [], []
        for stop in range(1, ROWS + 1):
            given: list[int] = []

            def read(offset: int, size: int, given: list[int] = given) -> bytes:
                piece: bytes = data[offset : offset + size]
                given.append(len(piece))
                return piece

            answer = mine.read_tensor(read, entry, (0, stop))
            tensor(answer, (stop, COLUMNS), "read_tensor")
            counts.append(sum(given))
            right.append(stop * COLUMNS * (end - begin) // (ROWS * COLUMNS))
        over = range(1, ROWS + 1)
        axes.plot(over, right, color=LIBRARY, linewidth=6, alpha=0.3, label="what the rows have")
        axes.plot([], [], color=LIBRARY, linewidth=6)
        axes.plot(over, counts, "o-", color=MINE, markersize=9, mfc="none", label="yours")
        plain(axes, f"rows of a tensor of {said['dtype']}", "bytes read")
        axes.plot(over[-1:], right[-1:], "s", color=LIBRARY)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
    return figure
