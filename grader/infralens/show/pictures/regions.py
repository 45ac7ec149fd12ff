"""Several controls (lab 09 of diffsynth): a region's weights, who looks at whom, who is called."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.image_processor import IPAdapterMaskProcessor
from matplotlib.figure import Figure
from torch import Tensor

from infralens.examiner.candidate.proxies import remote
from infralens.show.pictures.answers import tensor
from infralens.show.pictures.look import LIBRARY, MINE, plain, sheet
from infralens.wire import Namespace

SIDE, TOKENS, STEPS = 32, 8, 10
WINDOWS = ((0.0, 1.0), (0.0, 0.5), (0.25, 0.75))
LENGTHS = (3, 2)
METHODS = ("set_timesteps", "scale_model_input", "step")


def disc() -> Tensor:
    """A round region, aside of the middle."""
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    return (((rows - 14) ** 2 + (columns - 18) ** 2) < 100).float()


def draw(mine: Any, seed: int) -> Figure:
    """The learner's region beside the library's, their joint mask, and the controls they call."""
    figure = sheet(9.6, 3.5, "Several controls · region, mask, windows")
    wanted = IPAdapterMaskProcessor.downsample(disc()[None], 1, TOKENS**2, 1)[0, :, 0]
    weights = tensor(mine.region_weights(disc(), TOKENS**2), tuple(wanted.shape), "region_weights")
    for k, (name, values) in enumerate((("yours", weights), ("diffusers", wanted))):
        axes = figure.add_axes((0.03 + 0.21 * k, 0.12, 0.19, 0.68))
        grid = values.reshape(TOKENS, TOKENS)
        axes.imshow(grid, cmap="RdBu_r", vmin=-1.2, vmax=1.2)
        axes.set_title(f"{name}: {float(grid.min()):.2f} to {float(grid.max()):.2f}", fontsize=8)
        axes.set_axis_off()
    left = torch.zeros(2, 4)
    left[:, :2] = 1.0
    side = sum(LENGTHS) + left.numel()
    answer = mine.joint_mask([left, 1 - left], list(LENGTHS))
    numbers = answer.float() if isinstance(answer, Tensor) else answer  # True and False are drawn
    looks = tensor(numbers, (side, side), "joint_mask")
    axes = figure.add_axes((0.46, 0.12, 0.21, 0.68))
    axes.imshow(looks, cmap="Greys", vmin=0, vmax=1.6)
    axes.set_title("who looks at whom", fontsize=8)
    axes.set_xlabel("text, pixels", fontsize=8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes = figure.add_axes((0.74, 0.17, 0.245, 0.63))
    for k, (start, end) in enumerate(WINDOWS):
        span = end - start
        (bar,) = axes.barh(k, span * STEPS, left=start * STEPS, height=0.8, color="none")
        bar.set_edgecolor(LIBRARY)
        bar.set_linewidth(2)
    for k, i in called(mine):
        axes.barh(k, 1.0, left=i, height=0.5, color=MINE, edgecolor="white")
    plain(axes, "iteration", "control")
    axes.set_xlim(0, STEPS)
    axes.set_yticks(range(len(WINDOWS)))
    axes.set_title("windows, and your calls", fontsize=8)
    return figure


class Still:
    """A scheduler whose steps leave everything as it is."""

    timesteps, init_noise_sigma = torch.arange(STEPS, 0, -1), 1.0

    def set_timesteps(self, *_: Any) -> None: ...

    def scale_model_input(self, sample: Tensor, *_: Any) -> Tensor:
        return sample

    def step(self, output: Tensor, t: Any, sample: Tensor, *_: Any) -> Namespace:
        return Namespace({"prev_sample": sample})


def called(mine: Any) -> list[tuple[int, int]]:
    """Which control the learner's loop calls in which iteration."""
    calls: list[tuple[int, int]] = []
    turns: list[int] = []
    scheduler = remote(Still(), attributes=["timesteps", "init_noise_sigma"], methods=METHODS)

    def control(k: int, x: Tensor, *_: Any) -> tuple[list[Tensor], Tensor]:
        if 0 <= k < len(WINDOWS):
            calls.append((k, len(turns)))
        return [x], x

    def unet(x: Tensor, *_: Any) -> Tensor:
        turns.append(len(turns))
        return x

    controls = [{"weight": 1.0, "start": start, "end": end} for start, end in WINDOWS]
    noise, embeds = torch.zeros(1, 4, 2, 2), torch.zeros(2, 1, 4)
    mine.controlled_loop(unet, control, scheduler, noise, embeds, controls, 3.0, STEPS)
    return calls
