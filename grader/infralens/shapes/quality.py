"""Measures the finished pipeline with the judge and prints one table.

Every figure comes from pictures drawn with fixed seeds from prompts chosen with a fixed seed.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from infralens.shapes import drawing, measuring
from infralens.shapes.drawing import Combination, Drawing
from infralens.shapes.sampling import Request, load_pipeline, sample, with_controlnet

ADAPTER = "stripes"

NEGATIVE_PROMPTS = 12
"""Prompts per colour in the test of negative prompts."""

CONTROLLED = 60
STYLED = 300

STYLE_GUIDANCE = 2.0
"""guidance_scale for the LoRA. No caption names its style, so guidance does not strengthen it; it
strengthens the words, and at 4 that is at the expense of the stripes."""


@dataclass(frozen=True)
class Row:
    """One line of the table; shares are between 0 and 1."""

    what: str
    value: float
    target: str = ""
    met: bool | None = None

    def text(self) -> str:
        share = self.target.endswith("%") or not self.target
        value = f"{100 * self.value:.1f} %" if share else f"{self.value:.2f}"
        met = {None: "", True: "yes", False: "NO"}[self.met]
        return f"| {self.what} | {value} | {self.target} | {met} |"


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = ["| what | measured | target | met |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *(row.text() for row in rows)])


def at_least(what: str, value: float, percent: float) -> Row:
    return Row(what, value, f">= {percent:g} %", value >= percent / 100)


def prompts(count: int, unseen: int, seed: int) -> list[Combination]:
    """`count` combinations of which `unseen` were never drawn in training."""
    rng = random.Random(seed)
    kept_back = sorted(drawing.held_out(), key=lambda c: c.caption)
    drawn = [c for c in drawing.combinations() if c not in drawing.held_out()]
    return rng.sample(kept_back, unseen) + rng.sample(drawn, count - unseen)


def shares(pictures: Sequence[Image.Image], wanted: Sequence[Combination]) -> dict[str, float]:
    """Share of pictures right in each word and in all of them."""
    marks = [measuring.mark(np.asarray(p), w) for p, w in zip(pictures, wanted, strict=True)]
    names = ("colour", "background", "size", "shape", "all")
    return {name: sum(getattr(m, name) for m in marks) / len(marks) for name in names}


def _draw(
    pipe: Any, wanted: Sequence[Combination], request: Request, seed: int
) -> list[Image.Image]:
    seeds = [seed + k for k in range(len(wanted))]
    return sample(pipe, [c.caption for c in wanted], seeds, request)


def basic(
    pipe: Any, count: int = 300, unseen: int = 60, request: Request | None = None, seed: int = 1000
) -> dict[str, dict[str, float]]:
    """Shares over all prompts and over the ones never drawn in training."""
    wanted = prompts(count, unseen, seed)
    pictures = _draw(pipe, wanted, request or Request(), seed)
    found = {"all prompts": shares(pictures, wanted)}
    if unseen:
        found["never drawn"] = shares(pictures[:unseen], wanted[:unseen])
    return found


def negative(pipe: Any, seed: int = 2000) -> tuple[float, float, float]:
    """Share of pictures in a colour without and with that colour as the negative prompt.

    The prompts name no colour. Third comes the same share with "red" as the negative prompt,
    for red alone.
    """
    rng = random.Random(seed)
    texts, colours = [], []
    for colour in drawing.COLOURS:
        for _ in range(NEGATIVE_PROMPTS):
            size = rng.choice(list(drawing.SIZES))
            shape, ground = rng.choice(drawing.SHAPES), rng.choice(list(drawing.BACKGROUNDS))
            texts.append(f"a {size} {shape} on {ground} background")
            colours.append(colour)
    seeds = [seed + k for k in range(len(texts))]
    free = sample(pipe, texts, seeds, Request())
    barred = sample(pipe, texts, seeds, Request(), negative_prompts=colours)

    def share(pictures: Sequence[Image.Image], only: str = "") -> float:
        hits = [
            measuring.read(np.asarray(p)).colour == c
            for p, c in zip(pictures, colours, strict=True)
            if only in ("", c)
        ]
        return sum(hits) / len(hits)

    return share(free), share(barred), share(barred, "red")


def controlled(pipe: Any, seed: int = 3000) -> dict[str, float]:
    """Mean overlap with the control's shape and the shares of right words.

    Every other prompt leaves out shape and size, so that only the edge map can tell them.
    """
    wanted = prompts(CONTROLLED, CONTROLLED // 5, seed)
    rng = random.Random(seed)
    plans: list[Drawing] = [drawing.place(c, rng) for c in wanted]
    texts = [
        c.caption if k % 2 else f"a {c.colour} shape on {c.background} background"
        for k, c in enumerate(wanted)
    ]
    seeds = [seed + k for k in range(len(wanted))]
    pictures = sample(
        pipe, texts, seeds, Request(), controls=[drawing.edges(plan) for plan in plans]
    )
    overlaps = [
        measuring.overlap(np.asarray(p), drawing.mask(plan))
        for p, plan in zip(pictures, plans, strict=True)
    ]
    free = sample(
        pipe,
        texts,
        seeds,
        Request(control_scale=0.0),
        controls=[drawing.edges(plan) for plan in plans],
    )
    chance = [
        measuring.overlap(np.asarray(p), drawing.mask(plan))
        for p, plan in zip(free, plans, strict=True)
    ]
    return {
        "overlap": float(np.mean(overlaps)),
        "above 0.8": float(np.mean([o >= 0.8 for o in overlaps])),
        "overlap at scale 0": float(np.mean(chance)),
        **shares(pictures, wanted),
    }


def styled(pipe: Any, lora: Path, seed: int = 4000) -> dict[str, float]:
    """Share of striped pictures and mean swing at strengths 0, 0.5 and 1; removes the LoRA."""
    wanted = prompts(STYLED, STYLED // 5, seed)
    found: dict[str, float] = {}
    pipe.load_lora_weights(lora, adapter_name=ADAPTER)

    def draw(strength: float, guidance_scale: float) -> list[Image.Image]:
        pipe.set_adapters([ADAPTER], [strength])
        return _draw(pipe, wanted, Request(guidance_scale=guidance_scale), seed)

    for strength in (0.0, 0.5, 1.0):
        pictures = draw(strength, STYLE_GUIDANCE)
        found[f"striped at {strength:g}"] = share_striped(pictures)
        found[f"swing at {strength:g}"] = float(np.mean(swings(pictures)))
    found["background at 1"] = shares(pictures, wanted)["background"]
    found["shape at 1"] = striped_shapes(pictures, wanted)
    found["striped under strong guidance"] = share_striped(draw(1.0, Request().guidance_scale))
    pipe.unload_lora_weights()
    return found


def swings(pictures: Sequence[Image.Image]) -> list[float]:
    """How much the rows' brightness swings, picture by picture."""
    return [measuring.stripes(np.asarray(p)) for p in pictures]


def share_striped(pictures: Sequence[Image.Image]) -> float:
    """Share of pictures whose fill counts as striped."""
    return float(np.mean([swing >= measuring.STRIPES_FROM for swing in swings(pictures)]))


def striped_shapes(pictures: Sequence[Image.Image], wanted: Sequence[Combination]) -> float:
    """Share of striped pictures that show the shape asked for."""
    seen = [measuring.shape_in_stripes(np.asarray(p)) for p in pictures]
    return sum(s == w.shape for s, w in zip(seen, wanted, strict=True)) / len(seen)


def through_autoencoder(pipe: Any, pictures: Sequence[Image.Image]) -> list[Image.Image]:
    """The pictures encoded and decoded: the best that any sampler can do."""
    import torch

    pixels = np.stack([np.asarray(p) for p in pictures])
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1.0
    with torch.no_grad():
        y = pipe.vae.decode(pipe.vae.encode(x.to(pipe.device)).latent_dist.mean).sample
    back = ((y.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    return [Image.fromarray(p) for p in back]


def reconstruction(pipe: Any, count: int = 300, seed: int = 6000) -> dict[str, float]:
    """Shares right when drawings only pass through the autoencoder, plain ones and striped ones."""
    drawings = drawing.draw_set(count, seed, drawing.combinations())
    wanted = [d.combination for d in drawings]
    plain = [drawing.paint(d) for d in drawings]
    back = through_autoencoder(pipe, plain)
    off = [
        np.abs(np.asarray(a, float) - np.asarray(b, float)).mean() / 255.0
        for a, b in zip(plain, back, strict=True)
    ]
    striped = through_autoencoder(pipe, [drawing.paint(d, striped=True) for d in drawings])
    return {
        **shares(back, wanted),
        "error": float(np.mean(off)),
        "striped": share_striped(striped),
        "striped shape": striped_shapes(striped, wanted),
    }


def judge(count: int = 600, seed: int = 5000) -> float:
    """Share of real drawings that the judge reads without a mistake."""
    drawings = drawing.draw_set(count, seed, drawing.combinations())
    return shares([drawing.paint(d) for d in drawings], [d.combination for d in drawings])["all"]


def judge_of_stripes(count: int = 300, seed: int = 5000) -> float:
    """Share of real striped drawings whose shape the judge names."""
    drawings = drawing.draw_set(count, seed, drawing.combinations())
    pictures = [drawing.paint(d, striped=True) for d in drawings]
    return striped_shapes(pictures, [d.combination for d in drawings])


def seconds_for_four(pipe: Any) -> float:
    """Time of four pictures at 25 steps with guidance, after one warm-up picture."""
    wanted = prompts(4, 1, 7)
    _draw(pipe, wanted[:1], Request(steps=2), 7)
    start = time.perf_counter()
    _draw(pipe, wanted, Request(), 7)
    return time.perf_counter() - start


def measure(pipeline: Path, controlnet: Path, lora: Path, device: str = "cpu") -> list[Row]:
    """The whole table."""
    rows: list[Row] = []
    pipe = load_pipeline(pipeline, device)
    steps: list[tuple[str, Callable[[], None]]] = []

    def add_basic() -> None:
        found = basic(pipe)
        for group, values in found.items():
            least = {"colour": 97, "background": 97, "size": 90, "shape": 92}
            for word, percent in least.items():
                rows.append(at_least(f"{word} right, {group}", values[word], percent))
            rows.append(Row(f"everything right, {group}", values["all"]))

    def add_unguided() -> None:
        values = basic(pipe, request=Request(guidance_scale=1.0))["all prompts"]
        for word in ("colour", "background", "size", "shape"):
            rows.append(Row(f"{word} right without guidance", values[word]))
        rows.append(Row("everything right without guidance", values["all"]))

    def add_negative() -> None:
        free, barred, red = negative(pipe)
        rows.append(Row("colour drawn although not asked for", free))
        rows.append(Row("the same colour as the negative prompt", barred, "<= 2 %", barred <= 0.02))
        rows.append(Row("red drawn with the negative prompt 'red'", red, "<= 0 %", red <= 0.0))

    def add_controlled() -> None:
        values = controlled(with_controlnet(pipe, controlnet))
        overlap = values["overlap"]
        rows.append(Row("ControlNet: mean overlap", overlap, ">= 0.8", overlap >= 0.8))
        rows.append(Row("ControlNet: pictures with overlap >= 0.8", values["above 0.8"]))
        rows.append(Row("ControlNet: mean overlap at scale 0", values["overlap at scale 0"], "low"))
        for word in ("colour", "background", "size", "shape"):
            rows.append(Row(f"ControlNet: {word} right", values[word]))

    def add_styled() -> None:
        values = styled(load_pipeline(pipeline, device), lora)
        for strength in ("0", "0.5", "1"):
            share = values[f"striped at {strength}"]
            what = f"LoRA: striped pictures at strength {strength}"
            rows.append(at_least(what, share, 90) if strength == "1" else Row(what, share))
        for strength in ("0", "0.5", "1"):
            what = f"LoRA: mean swing of the rows at strength {strength}"
            rows.append(Row(what, values[f"swing at {strength}"], "rising"))
        rows.append(Row("LoRA: background right at strength 1", values["background at 1"]))
        rows.append(Row("LoRA: shape right at strength 1", values["shape at 1"]))
        strong = values["striped under strong guidance"]
        rows.append(Row("LoRA: striped pictures at strength 1, guidance 4", strong))

    def add_rest() -> None:
        rows.append(at_least("judge: real drawings read right", judge(), 99))
        stripes = judge_of_stripes()
        rows.append(at_least("judge: shapes of real striped drawings named", stripes, 97))
        back = reconstruction(pipe)
        rows.append(Row("autoencoder alone: everything right", back["all"]))
        rows.append(Row("autoencoder alone: mean error of a pixel", back["error"]))
        rows.append(Row("autoencoder alone: striped drawings still striped", back["striped"]))
        rows.append(Row("autoencoder alone: shapes of those named", back["striped shape"]))
        took = seconds_for_four(pipe)
        rows.append(Row("seconds for four pictures", took, "< 3", took < 3.0))

    steps = [
        ("guided", add_basic),
        ("unguided", add_unguided),
        ("negative", add_negative),
        ("controlnet", add_controlled),
        ("lora", add_styled),
        ("judge and speed", add_rest),
    ]
    for name, step in tqdm(steps, "measuring"):
        tqdm.write(name)
        step()
    return rows


def save(rows: Sequence[Row], path: Path) -> None:
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
