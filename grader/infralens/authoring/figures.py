"""The figures of the handbook and the lab pages, drawn from the solutions by this code alone.

`python -m infralens.authoring.figures` draws them again, all or those named, into
exercises/handbook/figures/. Pages show them as `![what is seen](figures/NAME.png)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from matplotlib.figure import Figure

from infralens.labs import find_lab, find_labs, own_place
from infralens.regular import write_whole
from infralens.shapes.exact import captioned_pictures, pictures_of
from infralens.show.pictures import lab_01, lab_02, lab_03, lab_04
from infralens.show.pictures.look import (
    DASHES,
    INK,
    SERIES,
    as_png,
    plain,
    row,
    sheet,
)
from infralens.wrong import wrong_answers

SEED = 3
WIDTH = 7.2  # inches: a column of text
MOST_BYTES = 60_000
SEEN = (0, 2, 4, 6, 7, 8)
"""Samples of a run that a narrow page has room for, the last among them."""

MISTAKES = (
    "sigma-not-root",
    "step-from-scaled-sample",
    "last-sigma-not-zero",
    "initial-noise-of-one",
)


def folder() -> Path:
    """Where the figures lie."""
    return own_place().exercises / "handbook" / "figures"


def solved(name: str, mistake: str = "") -> Any:
    """The functions of a lab's solution, or of its wrong answer `mistake`: both are ours."""
    lab = find_lab(name, find_labs())
    if lab.solution is None:
        raise FileNotFoundError(f"{name} has no solution here; draw in a checkout.")
    text = lab.solution.read_text(encoding="utf-8")
    if mistake:
        text = next(wrong for wrong in wrong_answers(lab) if wrong.name == mistake).edited(text)
    module = ModuleType(lab.solution.stem)
    exec(compile(text, str(lab.solution), "exec"), vars(module))
    return SimpleNamespace(**vars(module))


def dissolving() -> Figure:
    """A picture at five levels of noise."""
    mine = solved("lab-01")
    betas = mine.betas(lab_01.DISSOLVING, lab_01.STEPS, lab_01.START, lab_01.END)
    kept = mine.alphas_cumprod(betas)
    levels = torch.tensor(lab_01.LEVELS)
    image = pictures_of([lab_01.STAR]).images.expand(len(levels), -1, -1, -1)
    noise = torch.randn(image.shape, generator=torch.Generator().manual_seed(SEED))
    noisy = mine.add_noise(image.contiguous(), noise, levels, kept)
    titles = [
        f"t = {t}\nᾱ {a:.3f} · SNR {lab_01.short(snr)}"
        for t, a, snr in zip(
            lab_01.LEVELS, kept[levels].tolist(), mine.snr(levels, kept).tolist(), strict=True
        )
    ]
    figure = sheet(WIDTH, 1.85, "")
    row(figure, list(noisy), titles, name="x_t", box=(0.045, 0.03, 0.95, 0.72))
    return figure


def schedules() -> Figure:
    """ᾱ and SNR of three schedules over t."""
    mine = solved("lab-01")
    figure = sheet(WIDTH, 2.9, "")
    left, right = (
        figure.add_axes((0.085, 0.17, 0.4, 0.78)),
        figure.add_axes((0.59, 0.17, 0.4, 0.78)),
    )
    steps = torch.arange(lab_01.STEPS)
    for schedule, colour, dash in zip(lab_01.SCHEDULES, SERIES, DASHES, strict=False):
        kept = mine.alphas_cumprod(mine.betas(schedule, lab_01.STEPS, lab_01.START, lab_01.END))
        style = {"color": colour, "linestyle": dash, "label": schedule}
        left.plot(steps, kept, **style)
        right.plot(steps, mine.snr(steps, kept), **style)
    right.set_yscale("log")
    right.axhline(1, color=INK, linewidth=0.8)
    right.text(990, 1.3, "as much noise as signal", fontsize=7, color=INK, ha="right")
    plain(left, "timestep t", "ᾱ")
    plain(right, "timestep t", "SNR")
    left.legend(fontsize=8, frameon=False)
    return figure


def spacings() -> Figure:
    """Where ten timesteps fall under each spacing: as timesteps, and as noise levels."""
    mine = solved("lab-03")
    kept = mine._alphas_cumprod(lab_03.CONFIG)
    figure = sheet(WIDTH, 1.9, "")
    left = figure.add_axes((0.105, 0.27, 0.41, 0.68))
    right = figure.add_axes((0.565, 0.27, 0.41, 0.68))
    names = ("leading", "trailing", "linspace")
    for i, (spacing, colour, marker) in enumerate(zip(names, SERIES, "os^", strict=False)):
        times = mine.timesteps(1000, 10, spacing, 1)
        levels = mine.sigmas(kept, times)[:-1]
        for axes, places in ((left, times), (right, levels)):
            axes.plot(places, [-i] * 10, color=colour, marker=marker, linestyle="none")
    for axes, words in ((left, "timestep t"), (right, "noise level σ")):
        plain(axes, f"{words} (a run goes from left to right)", "")
        axes.set_ylim(-2.6, 0.6)
        axes.set_yticks([0, -1, -2], names if axes is left else ["", "", ""])
    left.set_xlim(1020, -20)
    right.set_xscale("log")
    right.set_xlim(20, 0.02)
    right.set_xticks([10, 1, 0.1], ["10", "1", "0.1"])
    return figure


def karras() -> Figure:
    """Ten noise levels between the same two ends, for three values of ρ."""
    mine = solved("lab-03")
    figure = sheet(WIDTH, 1.9, "")
    axes = figure.add_axes((0.105, 0.27, 0.87, 0.68))
    powers = (1.0, 3.0, 7.0)
    for i, (rho, colour, marker) in enumerate(zip(powers, SERIES, "os^", strict=False)):
        levels = mine.karras_sigmas(0.0292, 14.6146, 10, rho)[:-1]
        axes.plot(levels, [-i] * 10, color=colour, marker=marker, linestyle="none")
    plain(axes, "noise level σ (a run goes from left to right)", "")
    axes.set_ylim(-2.6, 0.6)
    axes.set_yticks([0, -1, -2], [f"ρ = {rho:g}" for rho in powers])
    axes.set_xscale("log")
    axes.set_xlim(20, 0.02)
    axes.set_xticks([10, 1, 0.1], ["10", "1", "0.1"])
    return figure


def shift() -> Figure:
    """What a static shift does to evenly spaced σ of flow matching."""
    mine = solved("lab-03")
    even = [1 - k / 100 for k in range(100)]
    figure = sheet(WIDTH * 0.6, 3.0, "")
    axes = figure.add_axes((0.13, 0.16, 0.84, 0.81))
    for size, colour, dash in zip((1.0, 3.0, 6.0), SERIES, DASHES, strict=False):
        config = {"num_train_timesteps": 1000, "shift": size, "use_dynamic_shifting": False}
        scheduler = mine.FlowMatchEuler(config)
        scheduler.set_timesteps(even, None)
        style = {"color": colour, "linestyle": dash, "label": f"shift {size:g}"}
        axes.plot(range(101), scheduler.sigmas, **style)
    plain(axes, "step of a run of 100", "σ after the shift")
    axes.legend(fontsize=8, frameon=False)
    return figure


def guidance() -> Figure:
    """The same five noises under four guidance scales."""
    mine = solved("lab-04")
    pictures = captioned_pictures(lab_04.PICTURES)
    network = lab_04.network_of(pictures)
    negative, prompt = (lab_04.embeds_of(pictures, words) for words in ("", lab_04.PROMPT))
    shape = (lab_04.SAMPLES, 3, 32, 32)
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def predict(x: torch.Tensor, t: torch.Tensor, scale: float) -> Any:
        return mine.guided_prediction(network, x, t, negative, prompt, scale)

    figure = sheet(WIDTH * 0.75, 4.4, "")
    for i, scale in enumerate(lab_04.SCALES[:4]):
        images = list(lab_04.sampled(predict, noise, scale))
        box = (0.07, 0.76 - 0.245 * i, 0.92, 0.22)
        row(figure, images, [""] * len(images), name=f"w = {scale:g}", box=box)
    return figure


def euler() -> Figure:
    """What lab 03's picture shows with the solution."""
    return lab_03.draw(solved("lab-03"), SEED)


def mistakes() -> Figure:
    """A run of lab 03's Euler, rightly and with four of its misconceptions."""
    generator = torch.Generator().manual_seed(SEED)
    noise = torch.randn((1, 3, 32, 32), generator=generator)
    network = lab_03.network_of(lab_03.PICTURES)
    n = lab_03.SHOWN_STEPS
    sigmas = lab_03.run_of(lab_03.library(n), n, noise, network).sigmas
    figure = sheet(WIDTH, 6.0, "")
    for i, mistake in enumerate(("", *MISTAKES)):
        mine = solved("lab-03", mistake)
        samples = lab_03.run_of(lab_03.theirs(mine, n), n, noise, network).samples
        seen = [lab_03.seen(samples, sigmas)[k] for k in SEEN]
        titles = [f"σ = {sigmas[k]:.3g}" if k and not mistake else "" for k in SEEN]
        figure.text(
            0.012,
            0.962 - 0.195 * i,
            mistake or f"right    σ = {sigmas[0]:.3g}",
            fontsize=8,
            color=INK,
        )
        row(figure, seen, titles, name="", box=(0.012, 0.8 - 0.195 * i, 0.985, 0.15))
    return figure


def predictions() -> Figure:
    """What lab 02's picture shows with the solution."""
    return lab_02.draw(solved("lab-02"), SEED)


FIGURES: dict[str, Callable[[], Figure]] = {
    "dissolving": dissolving,
    "schedules": schedules,
    "spacings": spacings,
    "karras": karras,
    "shift": shift,
    "guidance": guidance,
    "euler": euler,
    "mistakes": mistakes,
    "predictions": predictions,
}
"""What is drawn, by the name of its file without `.png`."""


def drawn(name: str) -> bytes:
    """One figure as a PNG file, drawn again. ValueError where it is too large for a page."""
    with torch.no_grad():
        png = as_png(FIGURES[name]())
    if len(png) > MOST_BYTES:
        raise ValueError(f"{name}.png has {len(png):,} bytes; a page's figure has at most 60,000")
    return png


def main(names: Sequence[str]) -> int:
    """Draw the figures of these names, or all."""
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        print(f"There is no figure {unknown[0]!r}: {', '.join(FIGURES)}.", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    for name in names or FIGURES:
        path = folder() / f"{name}.png"
        write_whole(path, drawn(name))
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
