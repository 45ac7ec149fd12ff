"""Lab 09: residual strength, and the part of the run in which a ControlNet has a say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from diffusers import ControlNetModel
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from infralens.shapes import CONTROLNET_FOLDER
from infralens.shapes.drawing import PICTURE, Combination, Drawing, edges
from infralens.shapes.sampling import with_controlnet
from infralens.show.pictures.answers import NotDrawnError, number, tensor
from infralens.show.pictures.look import FAINT, LIBRARY, MINE, picture, row, sheet
from infralens.show.pictures.shipped import LATENTS, Prompted, prompted

PROMPT = "a large yellow star on navy background"
CONTROL = Drawing(Combination("large", "yellow", "star", "navy"), 9.5, 12.5, 18.5)
"""Aside of the middle: where the star stands says whether the edges were heard."""

STRENGTHS = (0.0, 0.25, 0.5, 1.0, 1.5)
WINDOWS = ((0.0, 1.0), (0.0, 0.5), (0.0, 0.25), (0.25, 1.0), (0.5, 1.0))
STEPS, SCALE = 8, 4.0
PIXELS = (2, 3, PICTURE, PICTURE)

Window = tuple[float, float]
Drawn = Callable[[float, Window], Tensor]
"""A picture (3, 32, 32) by a conditioning scale and a window of the run."""


def draw(mine: Any, seed: int) -> Figure:
    """The edge map, a row of strengths and a row of windows: the learner's above diffusers'."""
    run = prompted(PROMPT, seed)
    controlnet = ControlNetModel.from_pretrained(CONTROLNET_FOLDER, local_files_only=True)
    outline = edges(CONTROL)
    whole = WINDOWS[0]
    series: tuple[tuple[str, list[str], list[tuple[float, Window]]], ...] = (
        ("strength", [f"{s:g}" for s in STRENGTHS], [(s, whole) for s in STRENGTHS]),
        ("window", [f"{a:g} to {b:g}" for a, b in WINDOWS], [(1.0, w) for w in WINDOWS]),
    )
    yours, theirs = _yours(mine, run, controlnet, outline), _library(run, outline)
    figure = sheet(9.6, 7.2, f'Lab 09 · "{PROMPT}", steered by an edge map')
    control = torch.from_numpy(np.asarray(outline).copy()).permute(2, 0, 1) / 127.5 - 1
    picture(figure.add_axes((0.02, 0.7, 0.16, 0.2133)), control, "the edge map")
    note = f"{STEPS} steps of DDIM,\nguidance {SCALE:g},\nthe same noise\neverywhere"
    figure.text(0.02, 0.66, note, fontsize=8, color=FAINT, va="top")
    for i, (kind, titles, cases) in enumerate(series):
        for k, (name, colour, drawn) in enumerate(
            (("yours", MINE, yours), ("diffusers", LIBRARY, theirs))
        ):
            images = [drawn(*case) for case in cases]
            said = [f"{kind} {title}" for title in titles] if k == 0 else [""] * len(titles)
            box = (0.235, 0.715 - 0.48 * i - 0.225 * k, 0.75, 0.205)
            row(figure, images, said, name=name, box=box, colour=colour)
    return figure


def _yours(mine: Any, run: Prompted, controlnet: ControlNetModel, outline: Image.Image) -> Drawn:
    """Pictures by the learner's functions. What they hand to the networks may be anything."""
    hint = tensor(mine.control_image(np.asarray(outline), 1, True), PIXELS, "control_image").float()

    def residuals(sample: Any, t: Any, **named: Any) -> tuple[list[Tensor], Tensor]:
        rows = _rows(sample)
        down, mid = controlnet(
            tensor(sample, (rows, *LATENTS), "controlled_prediction").float(),
            number(t, "controlled_prediction: the timestep"),
            encoder_hidden_states=_embeds(named, rows, run),
            controlnet_cond=_given(named, "controlnet_cond", (rows, *PIXELS[1:])),
            conditioning_scale=number(named.get("conditioning_scale"), "conditioning_scale"),
            guess_mode=named.get("guess_mode") is True,
            return_dict=False,
        )
        return list(down), mid

    def unet(sample: Any, t: Any, **named: Any) -> Tensor:
        rows = _rows(sample)
        down, wanted = named.get("down_block_additional_residuals"), shapes
        if not isinstance(down, list | tuple) or len(down) != len(wanted):
            raise NotDrawnError(f"{len(wanted)} down residuals are given to the UNet")
        noise: Tensor = run.pipe.unet(
            tensor(sample, (rows, *LATENTS), "controlled_prediction").float(),
            number(t, "controlled_prediction: the timestep"),
            encoder_hidden_states=_embeds(named, rows, run),
            down_block_additional_residuals=[
                tensor(each, (rows, *shape), "a down residual").float()
                for each, shape in zip(down, wanted, strict=True)
            ],
            mid_block_additional_residual=_given(
                named, "mid_block_additional_residual", (rows, *wanted[-1])
            ),
        ).sample
        return noise

    made, _ = residuals(
        torch.cat([run.noise] * 2),
        0.0,
        encoder_hidden_states=run.embeds,
        controlnet_cond=torch.zeros(PIXELS),
        conditioning_scale=1.0,
    )
    shapes = [tuple(each.shape[1:]) for each in made]

    def drawn(scale: float, window: Window) -> Tensor:
        keep = mine.controlnet_keep(STEPS, *window)
        if not isinstance(keep, list | tuple) or len(keep) != STEPS:
            raise NotDrawnError(f"`controlnet_keep` gave no list of {STEPS} numbers.")
        scales = [scale * number(each, "controlnet_keep") for each in keep]

        def predict(x: Tensor, i: int, t: Tensor) -> Tensor:
            answer = mine.controlled_prediction(
                unet, residuals, x, t, run.embeds, hint, scales[i], False
            )
            return tensor(answer, (2, *LATENTS), "controlled_prediction").float()

        return run.run(predict, STEPS, SCALE)

    return drawn


def _rows(sample: Any) -> int:
    return min(len(sample), 2) if isinstance(sample, Tensor) and sample.ndim else 2


def _given(named: dict[str, Any], name: str, shape: tuple[int, ...]) -> Tensor:
    return tensor(named.get(name), shape, name).float()


def _embeds(named: dict[str, Any], rows: int, run: Prompted) -> Tensor:
    return _given(named, "encoder_hidden_states", (rows, *run.embeds.shape[1:]))


def _library(run: Prompted, outline: Image.Image) -> Drawn:
    """Pictures by StableDiffusionControlNetPipeline."""
    pipe = with_controlnet(run.pipe, CONTROLNET_FOLDER)

    def drawn(scale: float, window: Window) -> Tensor:
        image: Tensor = pipe(
            run.prompt,
            image=outline,
            num_inference_steps=STEPS,
            guidance_scale=SCALE,
            controlnet_conditioning_scale=scale,
            control_guidance_start=window[0],
            control_guidance_end=window[1],
            latents=run.noise,
            output_type="pt",
        ).images[0]
        return 2 * image - 1

    return drawn
