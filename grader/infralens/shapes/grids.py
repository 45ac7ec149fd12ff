"""Picture grids for the README, magnified so that single pixels can be seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from infralens.shapes import drawing
from infralens.shapes.drawing import Combination
from infralens.shapes.quality import ADAPTER, STYLE_GUIDANCE, prompts
from infralens.shapes.sampling import Request, load_pipeline, sample, with_controlnet

ZOOM = 4
GAP = 6
LABEL = 14


def sheet(rows: Sequence[Sequence[Image.Image]], labels: Sequence[str] = ()) -> Image.Image:
    """Rows of 32 x 32 pictures, each row under its label if there are labels."""
    side = drawing.PICTURE * ZOOM
    label = LABEL if labels else 0
    width = GAP + max(len(row) for row in rows) * (side + GAP)
    whole = Image.new("RGB", (width, GAP + len(rows) * (side + GAP + label)), "white")
    pen = ImageDraw.Draw(whole)
    for r, row in enumerate(rows):
        top = GAP + r * (side + GAP + label)
        if labels:
            pen.text((GAP, top), labels[r], fill="black")
        for c, picture in enumerate(row):
            big = picture.resize((side, side), Image.Resampling.NEAREST)
            whole.paste(big, (GAP + c * (side + GAP), top + label))
    return whole


def _seeds(count: int, first: int) -> list[int]:
    return [first + k for k in range(count)]


def _save(picture: Image.Image, path: Path) -> None:
    """Few colours matter in these pictures; a palette keeps the files small."""
    picture.quantize(256).save(path, optimize=True)


def words_grid(pipe: object, path: Path, guidance: float = 4.0) -> None:
    """One row for each shape: eight colours, sizes and backgrounds in turn."""
    sizes, grounds = list(drawing.SIZES), list(drawing.BACKGROUNDS)
    rows, labels = [], []
    for n, shape in enumerate(drawing.SHAPES):
        wanted = [
            Combination(sizes[(n + k) % 2], colour, shape, grounds[(n + k + k // 4) % 4])
            for k, colour in enumerate(drawing.COLOURS)
        ]
        texts = [c.caption for c in wanted]
        rows.append(sample(pipe, texts, _seeds(8, 100 * n), Request(guidance_scale=guidance)))
        labels.append(
            f"{shape}: " + ", ".join(f"{c.size} {c.colour} on {c.background}" for c in wanted)
        )
    _save(sheet(rows, labels), path)


def unseen_grid(pipe: object, path: Path) -> None:
    """Combinations that were never drawn in training."""
    wanted = prompts(24, 24, 11)
    pictures = sample(pipe, [c.caption for c in wanted], _seeds(24, 700), Request())
    rows = [pictures[k : k + 8] for k in range(0, 24, 8)]
    labels = [
        ", ".join(f"{c.size} {c.colour} {c.shape} {c.background}" for c in wanted[k : k + 8])
        for k in range(0, 24, 8)
    ]
    _save(sheet(rows, labels), path)


def control_grid(pipe: object, controlnet: Path, path: Path) -> None:
    """Edge maps, pictures that follow them, and the same pictures without control."""
    rng = random.Random(12)
    wanted = prompts(8, 2, 12)
    controls = [drawing.edges(drawing.place(c, rng)) for c in wanted]
    texts = [c.caption for c in wanted]
    controlled = with_controlnet(pipe, controlnet)
    rows = [controls]
    for scale in (1.0, 0.0):
        request = Request(control_scale=scale)
        rows.append(sample(controlled, texts, _seeds(8, 800), request, controls=controls))
    _save(sheet(rows, ["edge maps", "control scale 1", "control scale 0"]), path)


def lora_grid(folder: Path, lora: Path, path: Path, device: str) -> None:
    """The same prompts and seeds at three strengths of the LoRA."""
    pipe = load_pipeline(folder, device)
    pipe.load_lora_weights(lora, adapter_name=ADAPTER)
    texts = [c.caption for c in prompts(8, 2, 13)]
    rows, labels = [], []
    for strength in (0.0, 0.5, 1.0):
        pipe.set_adapters([ADAPTER], [strength])
        rows.append(sample(pipe, texts, _seeds(8, 900), Request(guidance_scale=STYLE_GUIDANCE)))
        labels.append(f"strength {strength:g}")
    _save(sheet(rows, labels), path)


def negative_grid(pipe: object, path: Path) -> None:
    """A prompt without a colour: nothing, then single colours, as the negative prompt."""
    text = "a large circle on black background"
    rows, labels = [], []
    for word in ("", "red", "green", "blue"):
        rows.append(
            sample(pipe, [text] * 8, _seeds(8, 950), Request(), negative_prompts=[word] * 8)
        )
        labels.append(f"{text}; negative prompt '{word}'")
    _save(sheet(rows, labels), path)


def write_grids(
    pipeline: Path, controlnet: Path, lora: Path, out: Path, device: str = "cpu"
) -> list[Path]:
    """All grids as PNG files in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    pipe = load_pipeline(pipeline, device)
    words_grid(pipe, out / "words.png")
    words_grid(pipe, out / "unguided.png", guidance=1.0)
    unseen_grid(pipe, out / "unseen.png")
    negative_grid(pipe, out / "negative.png")
    control_grid(pipe, controlnet, out / "control.png")
    lora_grid(pipeline, lora, out / "stripes.png", device)
    return sorted(out.glob("*.png"))
