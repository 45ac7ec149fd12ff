"""A text-to-image pipeline small enough to ship: captioned 32 x 32 pictures of shapes.

Importing this package imports neither torch nor diffusers; `generate` does, when it is called.
"""

from __future__ import annotations

import io
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from infralens.importing import nothing_is_garbage
from infralens.shapes.drawing import BACKGROUNDS, COLOURS, SHAPES, SIZES
from infralens.shapes.vocabulary import known_words

if TYPE_CHECKING:
    from PIL.Image import Image

_HERE = Path(__file__).resolve().parent

FOLDER = _HERE / "pipeline"
"""The pipeline: `StableDiffusionPipeline.from_pretrained(FOLDER)`."""

CONTROLNET_FOLDER = _HERE / "controlnet"
"""ControlNet for edge maps: `ControlNetModel.from_pretrained(CONTROLNET_FOLDER)`."""

LORA_FOLDER = _HERE / "lora"
"""LoRA for striped fills: `pipe.load_lora_weights(LORA_FOLDER)`."""

MANIFEST = _HERE / "MANIFEST.json"
"""Size and SHA-256 of every shipped file."""

KNOWN = (
    f"the sizes {' and '.join(SIZES)}; the colours {', '.join(COLOURS)}; the shapes "
    f"{', '.join(SHAPES)}; and the backgrounds {', '.join(BACKGROUNDS)}"
)
"""What the captions of the training pictures name, in words."""

__all__ = [
    "CONTROLNET_FOLDER",
    "FOLDER",
    "KNOWN",
    "LORA_FOLDER",
    "MANIFEST",
    "as_png",
    "generate",
    "part_that_is_read",
    "quiet",
    "unknown_words",
]


def unknown_words(prompt: str) -> list[str]:
    """The words of a prompt that no caption of the training pictures had, in order."""
    known = set(known_words())
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", prompt).lower())
    return [word for word in dict.fromkeys(words) if word not in known]


def part_that_is_read(prompt: str) -> str | None:
    """The beginning of a prompt that fits into the model's tokens; None when all of it does.

    Known words are one token each; any other word is spelled out, letter by letter in the worst
    case.
    """
    from transformers import CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(FOLDER / "tokenizer")
    whole, cut = (tokenizer(prompt, truncation=cut)["input_ids"] for cut in (False, True))
    return None if len(whole) == len(cut) else str(tokenizer.decode(cut[1:-1])).strip()


def as_png(picture: Image, enlarge: int = 1) -> bytes:
    """The picture as a PNG file, each of its pixels a square of `enlarge` x `enlarge`."""
    png = io.BytesIO()
    size = picture.width * enlarge, picture.height * enlarge
    picture.resize(size, resample=0).save(png, "PNG")  # 0 is nearest neighbour
    return png.getvalue()


def quiet() -> None:
    """Import transformers and diffusers, and switch their advice and progress bars off."""
    with nothing_is_garbage():
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        import diffusers

    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()


def generate(
    prompt: str,
    *,
    negative_prompt: str = "",
    steps: int = 25,
    guidance_scale: float = 4.0,
    seed: int = 0,
    count: int = 1,
) -> list[Image]:
    """Draw `count` pictures (32 x 32 RGB) for one prompt with the shipped pipeline.

    Picture k of a call with seed s is the same as the only picture of a call with seed s + k.
    Guidance of 1 or less switches guidance off, and with it the negative prompt.
    """
    if count < 1:
        raise ValueError(f"count is {count}, but at least 1 picture has to be asked for")
    if steps < 1:
        raise ValueError(f"steps is {steps}, but sampling takes at least 1 step")
    with nothing_is_garbage():
        from infralens.shapes.sampling import Request, sample, shipped_pipeline

    request = Request(steps=steps, guidance_scale=guidance_scale)
    return sample(
        shipped_pipeline(),
        [prompt] * count,
        [seed + k for k in range(count)],
        request,
        negative_prompts=[negative_prompt] * count,
    )
