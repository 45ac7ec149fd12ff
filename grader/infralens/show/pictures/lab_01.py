"""Lab 01: a picture dissolves in noise as the learner's schedule and add_noise say."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import DDPMScheduler
from matplotlib.figure import Figure
from torch import Tensor

from infralens.shapes.drawing import PICTURE, Combination, Drawing
from infralens.shapes.exact import pictures_of
from infralens.show.pictures.answers import tensor
from infralens.show.pictures.look import DASHES, LIBRARY, MINE, SERIES, plain, row, sheet

STEPS, START, END = 1000, 0.00085, 0.012
SCHEDULES = ("linear", "scaled_linear", "squaredcos_cap_v2")
DISSOLVING = "scaled_linear"
LEVELS = (0, 150, 350, 600, 999)
"""Timesteps at which the eye sees the picture go: SNR from over a thousand to below a hundredth."""

STAR = Drawing(Combination("large", "yellow", "star", "navy"), 11.0, PICTURE / 2, PICTURE / 2)


def draw(mine: Any, seed: int) -> Figure:
    """The picture at five levels with its SNR, and ᾱ of the three schedules."""
    from diffusers.training_utils import compute_snr  # with it come all models, for seconds

    image = pictures_of([STAR]).images
    many = image.expand(len(LEVELS), -1, -1, -1).contiguous()
    noise = torch.randn(many.shape, generator=torch.Generator().manual_seed(seed))
    levels = torch.tensor(LEVELS)
    tables = {schedule: _table(mine, schedule) for schedule in SCHEDULES}
    kept = tables[DISSOLVING].float()
    noisy = tensor(mine.add_noise(many, noise, levels, kept), tuple(many.shape), "add_noise")
    ratios = tensor(mine.snr(levels, kept), (len(LEVELS),), "snr")
    library = _library(DISSOLVING)
    right = library.add_noise(many, noise, levels)

    figure = sheet(9.6, 6.9, "Lab 01 · a picture dissolves in noise")
    for name, images, snrs, bottom, colour in (
        ("yours", noisy, ratios, 0.685, MINE),
        ("diffusers", right, compute_snr(library, levels), 0.42, LIBRARY),
    ):
        told = zip(LEVELS, snrs.tolist(), strict=True)
        titles = [f"t = {t}   SNR {short(snr)}" for t, snr in told]
        box = (0.05, bottom, 0.94, 0.21)
        row(figure, list(images), titles, name=name, box=box, colour=colour)
    axes = figure.add_axes((0.075, 0.085, 0.9, 0.27))
    steps = torch.arange(STEPS)
    for schedule, colour, dash in zip(SCHEDULES, SERIES, DASHES, strict=False):
        right_curve = _library(schedule).alphas_cumprod
        axes.plot(steps, right_curve, color=colour, linewidth=5, alpha=0.3)
        axes.plot(steps, tables[schedule], color=colour, linestyle=dash, label=f"{schedule}, yours")
    axes.plot([], [], color="#767676", linewidth=5, alpha=0.3, label="diffusers")
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlim(0, STEPS - 1)
    plain(axes, "timestep t", "ᾱ, the share of signal")
    axes.legend(fontsize=8, frameon=False)
    return figure


def _table(mine: Any, schedule: str) -> Tensor:
    """The learner's ᾱ of a schedule, float64 (1000,)."""
    betas = tensor(mine.betas(schedule, STEPS, START, END), (STEPS,), "betas")
    return tensor(mine.alphas_cumprod(betas.float()), (STEPS,), "alphas_cumprod")


def _library(schedule: str) -> DDPMScheduler:
    return DDPMScheduler(STEPS, START, END, schedule)


def short(ratio: float) -> str:
    """Three digits or two, and never 1.18e+03."""
    if 100 <= abs(ratio) < 1e5:
        return f"{ratio:.0f}"
    return f"{ratio:.3g}" if abs(ratio) > 0.1 else f"{ratio:.2g}"
