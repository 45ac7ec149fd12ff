"""Figures of labs 01 to 04 and diffsynth's 01: what solutions compute, how misconceptions look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from infralens.authoring.figures.solved import SEED, WIDTH, solved
from infralens.examiner.candidate.in_process import RehearsedCandidate
from infralens.examiner.run.trial import Trial, running
from infralens.shapes.exact import captioned_pictures, pictures_of
from infralens.show.pictures import lab_01, lab_02, lab_03, lab_04, loop
from infralens.show.pictures.look import (
    DASHES,
    INK,
    SERIES,
    plain,
    row,
    sheet,
)

SEEN = (0, 2, 4, 6, 7, 8)
"""Samples of a run that a narrow page has room for, the last among them."""

MISTAKES = (
    "sigma-not-root",
    "step-from-scaled-sample",
    "last-sigma-not-zero",
    "initial-noise-of-one",
)


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
    """ᾱ, σ and SNR of three schedules over t."""
    mine = solved("lab-01")
    figure = sheet(WIDTH * 1.2, 2.7, "")
    left, middle, right = (figure.add_axes((x, 0.18, 0.255, 0.77)) for x in (0.06, 0.395, 0.735))
    steps = torch.arange(lab_01.STEPS)
    for schedule, colour, dash in zip(lab_01.SCHEDULES, SERIES, DASHES, strict=False):
        kept = mine.alphas_cumprod(mine.betas(schedule, lab_01.STEPS, lab_01.START, lab_01.END))
        style = {"color": colour, "linestyle": dash, "label": schedule}
        left.plot(steps, kept, **style)
        middle.plot(steps, ((1 - kept) / kept).sqrt(), **style)
        right.plot(steps, mine.snr(steps, kept), **style)
    for axes in (middle, right):
        axes.set_yscale("log")
        axes.axhline(1, color=INK, linewidth=0.8)
    right.text(15, 0.2, "as much noise\nas signal", fontsize=7, color=INK, va="top")
    for axes, words in ((left, "ᾱ"), (middle, "noise level σ"), (right, "SNR")):
        plain(axes, "timestep t", words)
    left.legend(fontsize=7, frameon=False)
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


def side_by_side() -> Figure:
    """A run of lab 03's Euler, rightly on the left and with a misconception on the right."""
    mistake = MISTAKES[0]
    generator = torch.Generator().manual_seed(SEED)
    noise = torch.randn((1, 3, 32, 32), generator=generator)
    network = lab_03.network_of(lab_03.PICTURES)
    n = lab_03.SHOWN_STEPS
    sigmas = lab_03.run_of(lab_03.library(n), n, noise, network).sigmas
    figure = sheet(8.4, 3.25, "")
    for left, name, words in (
        (0.01, "", "right: divided by √(σ² + 1)"),
        (0.51, mistake, "the sample divided by σ"),
    ):
        mine = solved("lab-03", name)
        samples = lab_03.run_of(lab_03.theirs(mine, n), n, noise, network).samples
        seen = lab_03.seen(samples, sigmas)
        figure.text(left, 0.93, words, fontsize=10, color=INK)
        for k, bottom in ((0, 0.46), (3, 0.0)):
            some = SEEN[k : k + 3]
            titles = [f"σ = {sigmas[i]:.3g}" for i in some]
            box = (left, bottom + 0.015, 0.485, 0.395)
            row(figure, [seen[i] for i in some], titles, name="", box=box)
    return figure


def tokens() -> Figure:
    """Picture tokens over the size: of a square image, and of a video's frames."""
    lab = "diffsynth/lab-01"
    mine = solved(lab)
    image = {"_class_name": "AutoencoderKL", "block_out_channels": [1] * 4, "latent_channels": 16}
    flux = {"_class_name": "FluxTransformer2DModel", "in_channels": 64, "patch_size": 1}
    wan_vae = {"_class_name": "AutoencoderKLWan", "dim_mult": [1, 2, 4, 4], "z_dim": 16}
    wan_vae["temperal_downsample"] = [False, True, True]
    wan = {"_class_name": "WanTransformer3DModel", "in_channels": 16, "patch_size": [1, 2, 2]}
    ltx_vae = {"_class_name": "AutoencoderKLLTXVideo", "patch_size": 4, "patch_size_t": 1}
    ltx_vae |= {"spatio_temporal_scaling": [True, True, True, False], "latent_channels": 128}
    ltx = {"_class_name": "LTXVideoTransformer3DModel", "in_channels": 128, "patch_size": 1}
    figure = sheet(WIDTH, 2.9, "")
    left = figure.add_axes((0.1, 0.17, 0.38, 0.78))
    right = figure.add_axes((0.6, 0.17, 0.38, 0.78))
    sides = range(256, 2049, 128)
    patch = solved(lab, "config-patch-only")
    for of, label, i in ((patch, "patch_size 1 believed", 1), (mine, "packed 2 × 2", 0)):
        lengths = [of.sequence_length(image, flux, side, side, 1) for side in sides]
        left.plot(sides, lengths, color=SERIES[i], linestyle=DASHES[i], label=label)
    every = solved(lab, "frames-not-compressed")
    videos = (
        (every, wan_vae, wan, "Wan, every frame counted", 4),
        (mine, wan_vae, wan, "Wan", 4),
        (mine, ltx_vae, ltx, "LTX", 8),
    )
    order = (1, 0, 2)
    for (of, vae, network, label, step), i in zip(videos, order, strict=True):
        frames = range(1, 122, step)
        lengths = [of.sequence_length(vae, network, 480, 832, count) for count in frames]
        right.plot(frames, lengths, color=SERIES[i], linestyle=DASHES[i], label=label)
    for axes, words in ((left, "side of a square image, pixels"), (right, "frames of 480 × 832")):
        plain(axes, words, "picture tokens")
        axes.set_yscale("log")
        axes.legend(fontsize=8, frameon=False)
    return figure


def filled() -> Figure:
    """Bytes in memory while a module on meta is filled, file by file and with all files first."""
    mine = solved("diffsynth/lab-02")
    count, side = 8, 512
    whole = torch.nn.Sequential(
        *(torch.nn.Linear(side, side, bias=False, device="meta") for _ in range(count))
    )
    weights = torch.zeros(side, side)
    curve: list[float] = []

    def read_shard(name: str) -> dict[str, Tensor]:
        real = sum(not parameter.is_meta for parameter in whole.parameters())
        curve.append((real + 1) * weights.nbytes / 2**20)
        return {f"{name}.weight": weights.clone()}

    names = [str(i) for i in range(count)]
    # Lent as it is, the module would be a copy's: this runs where the figure is drawn.
    mine.load_low_memory(whole, read_shard, names, torch.float16, [])
    files = range(1, count + 1)
    figure = sheet(WIDTH, 2.7, "")
    axes = figure.add_axes((0.12, 0.2, 0.85, 0.75))
    size = weights.nbytes / 2**20
    first = [*(size * i for i in files), *(size * (count + i / 2) for i in files)]
    if len(curve) != count:
        raise AssertionError("a file was not read once")
    held = [size + (read - size) / 2 for read in curve]  # what was filled is in half precision
    axes.plot(range(1, 2 * count + 1), first, color=SERIES[1], linestyle=DASHES[1])
    axes.plot(files, held, color=SERIES[0], linestyle=DASHES[0])
    axes.text(2 * count, first[-1], "all files read first", fontsize=8, ha="right", va="bottom")
    axes.text(count, held[-1], " one file after the other", fontsize=8, va="center")
    plain(axes, "files read, then tensors cast", "MiB in memory")
    return figure


def expectations() -> Figure:
    """What a perfect network says at five levels, for each thing that it may be asked for."""
    pictures = captioned_pictures(lab_02.PICTURES)
    network = pictures.denoiser
    clean = pictures.images[int(pictures.prior(lab_02.CAPTION).argmax())][None]
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(SEED))
    levels = (0.995, 0.7, 0.2, 0.05, 0.003)
    noisy = [a**0.5 * clean + (1 - a) ** 0.5 * noise for a in levels]
    asked: tuple[tuple[str, Callable[[Tensor, float], Tensor]], ...] = (
        ("x_t", lambda x, a: x),
        ("sample", network.original),
        ("epsilon", network.epsilon),
        ("v_prediction", network.velocity),
    )
    figure = sheet(WIDTH * 0.8, 4.75, "")
    for i, (name, said) in enumerate(asked):
        images = [said(x, a)[0].double() for x, a in zip(noisy, levels, strict=True)]
        halved = [image / 2 if image.abs().max() > 1.5 else image for image in images]
        titles = [f"ᾱ = {a:g}" if i == 0 else "" for a in levels]
        box = (0.06, 0.72 - 0.2395 * i, 0.935, 0.225)
        row(figure, halved, titles, name=name, box=box)
    return figure


def states() -> Figure:
    """The states of the loop of diffsynth's lab 04 on the way from noise, by Euler and by Heun."""
    noise = torch.randn(loop.SHAPE, generator=torch.Generator().manual_seed(SEED))
    network = lab_03.network_of(loop.PICTURES)
    figure = sheet(WIDTH, 2.95, "")
    with running(Trial()):
        mine = RehearsedCandidate(vars(solved("diffsynth/lab-04")))
        for i, (name, kind) in enumerate(loop.SCHEDULERS.items()):
            run = loop.yours(mine, kind, noise, network)
            some = [round(k * (len(run.states) - 1) / 5) for k in range(6)]
            sigmas = loop.library(kind, noise, network).sigmas
            levels = [sigmas[k] for k in some]
            images = lab_03.seen(torch.cat([run.states[k] for k in some]), torch.tensor(levels))
            titles = [f"step {k + 1}   σ = {sigmas[k]:.2g}" for k in some]
            box = (0.045, 0.5 - 0.49 * i, 0.95, 0.425)
            row(figure, images, titles, name=name, box=box)
    return figure
