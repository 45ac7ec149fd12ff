"""Figures of the shipped model: what it draws, step by step, and how it is put together."""

from __future__ import annotations

import math
import random
import re
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from infralens.authoring.figures.solved import SEED, WIDTH, solved
from infralens.labs import own_place
from infralens.shapes.exact import pictures_of
from infralens.show.pictures import lab_06, lab_10
from infralens.show.pictures.lab_05 import vae
from infralens.show.pictures.look import DASHES, INK, SERIES, plain, row, sheet
from infralens.show.pictures.shipped import Prompted, prompted

PROMPT = "a large yellow star on navy background"
PROMPTS = (PROMPT, "a small red ring on gray background", "a large cyan square on black background")
STEPS, SCALE = 8, 4.0
COUNTS = (1, 2, 4, 8, 25)
REQUESTS = 40_000  # of a queue; the waits of the slowest hundredth are steady then
LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95)
PAIR = re.compile(r"^\| ([\d.]+ → [\d.]+) \| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)


def run() -> Figure:
    """A run from noise to a picture: the latents on the way, decoded, and what is guessed of x0."""
    given = prompted(PROMPT, SEED)
    scheduler = given.pipe.scheduler
    scheduler.set_timesteps(STEPS)
    x, latents, guesses, titles = given.noise, [], [], []
    for t in scheduler.timesteps:
        output = _guided(given, x, t)
        made = scheduler.step(output, t, x)
        latents.append(_decoded(given, x))
        guesses.append(_decoded(given, made.pred_original_sample))
        titles.append(f"t = {int(t)}")
        x = made.prev_sample
    some = (0, 2, 3, 4, 5, 7)
    figure = sheet(WIDTH, 2.75, "")
    for name, images, said, bottom in (
        ("latents", latents, titles, 0.475),
        ("guess of x0", guesses, [""] * STEPS, 0.01),
    ):
        box = (0.045, bottom, 0.95, 0.44)
        row(figure, [images[i] for i in some], [said[i] for i in some], name=name, box=box)
    return figure


def few() -> Figure:
    """Three noises, each in 1, 2, 4, 8 and 25 steps."""
    figure = sheet(WIDTH * 0.8, 3.6, "")
    for i, prompt in enumerate(PROMPTS):
        given = prompted(prompt, SEED + i)
        scheduler = given.pipe.scheduler
        images = []
        for count in COUNTS:
            scheduler.set_timesteps(count)
            x = given.noise
            for t in scheduler.timesteps:
                x = scheduler.step(_guided(given, x, t), t, x).prev_sample
            images.append(_decoded(given, x))
        titles = [f"{count} step{'s' * (count > 1)}" if i == 0 else "" for count in COUNTS]
        row(figure, images, titles, name="", box=(0.01, 0.64 - 0.3175 * i, 0.985, 0.305))
    return figure


def _guided(given: Prompted, x: Tensor, t: Tensor) -> Tensor:
    output = given.pipe.unet(torch.cat([x, x]), t, encoder_hidden_states=given.embeds).sample
    negative, positive = output.chunk(2)
    guided: Tensor = negative + SCALE * (positive - negative)
    return guided


def _decoded(given: Prompted, x: Tensor) -> Tensor:
    decoder = given.pipe.vae
    image: Tensor = decoder.decode(x / decoder.config.scaling_factor).sample[0]
    return image


def branches() -> Figure:
    """A guided run with attention kept for a second call: both branches in one call, or in two."""
    from diffusers import PyramidAttentionBroadcastConfig, apply_pyramid_attention_broadcast

    images, now = [], [0]
    for every, apart in ((1, False), (2, False), (2, True)):
        given = prompted(PROMPT, SEED)
        kept = PyramidAttentionBroadcastConfig(
            spatial_attention_block_skip_range=every,
            cross_attention_block_skip_range=every,
            current_timestep_callback=lambda: now[0],
        )
        apply_pyramid_attention_broadcast(given.pipe.unet, kept)
        called = partial(_branches, given, 1 if apart else 2, now)
        with torch.no_grad():
            images.append(given.run(called, 2 * STEPS, SCALE))
    titles = ["attention in every call", "in every second step", "in every second call"]
    figure = sheet(WIDTH * 0.75, 2.05, "")
    row(figure, images, titles, name="", box=(0.01, 0.02, 0.985, 0.86))
    return figure


def _branches(
    given: Prompted, at_once: int, now: list[int], x: Tensor, _: int, t: Tensor
) -> Tensor:
    """The network's output for both branches, so many of them at once; `now` is the timestep."""
    now[0] = int(t)
    pairs = zip(torch.split(x, at_once), torch.split(given.embeds, at_once), strict=True)
    unet = given.pipe.unet
    return torch.cat([unet(rows, t, encoder_hidden_states=words).sample for rows, words in pairs])


def seam() -> Figure:
    """A picture decoded whole and in tiles by lab 10's solution, and where the tiles are seen."""
    image = pictures_of([lab_10.STAR]).images
    large = image.repeat_interleave(lab_10.ENLARGED, 2).repeat_interleave(lab_10.ENLARGED, 3)
    latents = vae().encode(large).latent_dist.mode()
    whole = vae().decode(latents).sample[0].double()
    mine, images, titles = solved("lab-10"), [whole], ["decoded whole"]
    for overlap, words in ((0, "no blending"), (5, f"blended over 5 of {lab_10.TILE}")):
        tiled = lab_10.yours(mine, latents, lab_10.TILE, overlap).image
        images += [tiled, (tiled - whole).abs() * lab_10.SEAMS - 1]
        titles += [words, f"its difference, ×{lab_10.SEAMS}"]
    figure = sheet(WIDTH, 1.62, "")
    row(figure, images, titles, name="", box=(0.008, 0.02, 0.992, 0.84))
    return figure


def graph() -> Figure:
    """The components of the shipped model, and what a run hands from one to the next."""
    figure = sheet(9.6, 3.55, "")
    whole = lab_06.library(SEED)
    lab_06.panel(figure, whole, whole, INK, (0.02, 0.02, 0.97, 0.97))
    return figure


def embedding() -> Figure:
    """The embedding of the first timesteps, and how alike that of t = 500 is to the others."""
    steps = torch.arange(1000)
    table = solved("lab-07").timestep_embedding(steps, 320, True, 0)
    figure = sheet(WIDTH, 2.7, "")
    left = figure.add_axes((0.08, 0.19, 0.4, 0.74))
    shown = left.imshow(table[:200].T, aspect="auto", cmap="PuOr", interpolation="nearest")
    plain(left, "timestep t", "channel")
    left.grid(visible=False)
    bar = figure.colorbar(shown, ax=left, fraction=0.05, pad=0.03, ticks=[-1, 0, 1])
    bar.ax.tick_params(labelsize=7)
    right = figure.add_axes((0.585, 0.19, 0.4, 0.74))
    size = table.norm(dim=1)
    alike = (table @ table[500]) / (size * size[500])
    right.plot(steps, alike, color=SERIES[0], linewidth=1.2)
    plain(right, "timestep t", "cosine of the angle to t = 500")
    right.set_ylim(0, 1.03)
    return figure


def queue() -> Figure:
    """How long a request waits in a queue before one worker, over its load."""
    figure = sheet(WIDTH * 0.75, 2.9, "")
    axes = figure.add_axes((0.11, 0.17, 0.865, 0.8))
    means, slowest = zip(*map(_waits, LOADS), strict=True)
    fine = [load / 200 for load in range(2, 192)]
    formula = [load / (2 * (1 - load)) for load in fine]
    axes.plot(fine, formula, color=SERIES[0], label="mean, by the formula")
    axes.plot(LOADS, means, "o", color=SERIES[0], markersize=4, label="mean, simulated")
    style = {"color": SERIES[1], "linestyle": DASHES[1], "marker": "s", "markersize": 4}
    axes.plot(LOADS, slowest, label="the slowest hundredth waits longer", **style)
    plain(axes, "load", "wait, in service times")
    axes.legend(fontsize=8, frameon=False)
    return figure


def _waits(load: float) -> tuple[float, float]:
    """The mean wait of a request, and the wait that one in a hundred exceeds."""
    rng, free, now, waits = random.Random(SEED), 0.0, 0.0, []
    for _ in range(REQUESTS):
        now += rng.expovariate(load)
        waits.append(max(0.0, free - now))
        free = max(free, now) + 1.0
    return math.fsum(waits) / REQUESTS, sorted(waits)[REQUESTS * 99 // 100]


def releases() -> Figure:
    """The values that a release changed, as the page's own table has them."""
    page = own_place().exercises / "handbook" / "releases.md"
    pairs = PAIR.findall(page.read_text(encoding="utf-8"))
    found = [[int(count.replace(",", "")) for count in counts] for _, *counts in pairs]
    figure = sheet(WIDTH * 0.75, 2.3, "")
    axes = figure.add_axes((0.2, 0.2, 0.775, 0.77))
    for column, words, colour in ((2, "different", SERIES[1]), (1, "within rounding", SERIES[0])):
        sizes = [counts[column] for counts in found]
        offset = 0.2 if column == 2 else -0.2
        places = [i + offset for i in range(len(found))]
        bars = axes.barh(places, sizes, height=0.38, color=colour, label=words)
        axes.bar_label(bars, [str(size) if size else "" for size in sizes], fontsize=7, padding=2)
    axes.set_yticks(range(len(found)), [names for names, *_ in pairs])
    axes.invert_yaxis()
    values = max(map(sum, found))
    plain(axes, f"values that are not equal to the bit, of {values:,}", "")
    axes.legend(fontsize=8, frameon=False)
    return figure
