"""Lab 08: the shipped LoRA at rising strengths, read and multiplied out by the learner."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from safetensors.torch import load_file
from torch import Tensor

from infralens.shapes import LORA_FOLDER
from infralens.show.pictures.answers import NotDrawnError, number, tensor
from infralens.show.pictures.look import LIBRARY, MINE, row, sheet
from infralens.show.pictures.shipped import Prompted, prompted

PROMPTS = ("a large orange circle on navy background", "a large cyan square on black background")
STRENGTHS = (-1.0, 0.0, 0.5, 1.0, 1.5, 2.5)
"""Of the adapter: below 0 it takes stripes away, at 1 it is as trained, beyond it is too much."""

STEPS, SCALE = 8, 4.0
KINDS = {"A": "lora_A", "B": "lora_B"}


def draw(mine: Any, seed: int) -> Figure:
    """A row of strengths for two prompts: by the learner's ΔW, and by diffusers."""
    adapter = load_file(LORA_FOLDER / "pytorch_lora_weights.safetensors")
    changes = deltas(mine, {key: weight.float() for key, weight in adapter.items()})
    figure = sheet(9.6, 7.3, "Lab 08 · a LoRA that fills shapes with stripes, at rising strength")
    titles = [f"strength {strength:g}" for strength in STRENGTHS]
    for i, prompt in enumerate(PROMPTS):
        run = prompted(prompt, seed)
        right = library(run)
        run.pipe.unload_lora_weights()
        for k, (name, colour, images) in enumerate(
            (("yours", MINE, yours(run, changes)), ("diffusers", LIBRARY, right))
        ):
            box = (0.05, 0.71 - 0.475 * i - 0.215 * k, 0.94, 0.195)
            row(figure, images, titles if k == 0 else [""] * 6, name=name, box=box, colour=colour)
        figure.text(0.05, 0.93 - 0.475 * i, f'"{prompt}"', fontsize=8, va="bottom")
    return figure


def deltas(mine: Any, adapter: dict[str, Tensor]) -> dict[str, Tensor]:
    """ΔW of every weight that the file changes, by the learner's functions: {name: ΔW}."""
    shapes = {key: tuple(weight.shape) for key, weight in adapter.items()}
    names = [key.removesuffix(".lora_A.weight") for key in shapes if key.endswith(".lora_A.weight")]
    found = mine.parse_state_dict(adapter)
    if not isinstance(found, dict):
        raise NotDrawnError("`parse_state_dict` gave no dict.")
    changes = {}
    for name in names:
        parts = found.get(name)
        if not isinstance(parts, dict) or not {"A", "B", "alpha"} <= parts.keys():
            raise NotDrawnError(f"`parse_state_dict` found no A, B and alpha of {name}.")
        a, b = (
            tensor(parts[part], shapes[f"{name}.{kind}.weight"], "parse_state_dict").float()
            for part, kind in KINDS.items()
        )
        alpha = number(parts["alpha"], f"parse_state_dict: alpha of {name}")
        delta = mine.lora_delta(a, b, alpha, len(a), False)
        changes[name.removeprefix("unet.")] = tensor(delta, (len(b), *a.shape[1:]), "lora_delta")
    return changes


def yours(run: Prompted, changes: dict[str, Tensor]) -> list[Tensor]:
    """A picture a strength: each weight is W + strength·ΔW."""
    unet = run.pipe.unet
    weights = {name: unet.get_submodule(name).weight for name in changes}
    before = {name: weight.data.clone() for name, weight in weights.items()}
    images = []
    for strength in STRENGTHS:
        for name, weight in weights.items():
            weight.data = before[name] + strength * changes[name].float()
        images.append(_drawn(run))
    return images


def library(run: Prompted) -> list[Tensor]:
    """The same by diffusers: the adapter stands beside the weights."""
    run.pipe.load_lora_weights(LORA_FOLDER, adapter_name="stripes")
    images = []
    for strength in STRENGTHS:
        run.pipe.set_adapters("stripes", strength)
        images.append(_drawn(run))
    return images


def _drawn(run: Prompted) -> Tensor:
    def predict(x: Tensor, i: int, t: Tensor) -> Tensor:
        noise: Tensor = run.pipe.unet(x, t, encoder_hidden_states=run.embeds).sample
        return noise

    return run.run(predict, STEPS, SCALE)
