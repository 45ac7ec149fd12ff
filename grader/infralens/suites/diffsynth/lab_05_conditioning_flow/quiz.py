"""Lab 05 of diffsynth: the reading checkpoints, answered by pipelines and layers of diffusers."""

from __future__ import annotations

import torch

from infralens.quiz import question
from infralens.suites.diffsynth.lab_05_conditioning_flow import live
from infralens.suites.networks import seeded

ENCODERS = ((768, None), (1280, 1280))  # width, and that of the projection, of SDXL's two


def _encoded(clip_skip: int | None) -> live.Pair:
    outputs = []
    for width, projected in ENCODERS:
        states = [torch.full((1, 77, width), float(layer)) for layer in range(5)]
        pooled = {"pooler_output": states[0][:, 0]}
        if projected is not None:
            pooled = {"text_embeds": torch.zeros(1, projected)}
        outputs.append({"hidden_states": states, "last_hidden_state": states[-1], **pooled})
    return live.sdxl_encoded(outputs, clip_skip)


@question(
    "SDXL's text encoders are 768 and 1280 wide and the second projects to 1280: how wide are a "
    "token and the pooled vector?"
)
def widths_of_sdxl() -> tuple[int, int]:
    """Side by side, 768 + 1280; the pooled vector is the second's projection alone."""
    embeds, pooled = _encoded(None)
    return embeds.shape[-1], pooled.shape[-1]


@question("Two prompts, three images each, with guidance: how many rows does the UNet get?")
def rows_of_the_unet() -> int:
    """2 · 2 · 3: the negative half and the positive one."""
    half = {"encoder_hidden_states": torch.zeros(2, 3, 6), "text_embeds": torch.zeros(2, 5)}
    return len(live.into_unet(half, half, 3)["encoder_hidden_states"])


def _stands_for(negative: str | None) -> str:
    with seeded(0):
        table = live.Table(["a cat", ""], torch.randn(2, 3, 6), torch.randn(2, 5))
    _, (embeds, _) = table.through_sdxl(["a cat"], negative, force_zeros=True)
    return "zeros" if not embeds.any() else "the empty text, encoded"


WAYS = ("zeros", "the empty text, encoded")


@question(
    'SDXL base with negative_prompt="": what does the negative half of the states hold?',
    choices=WAYS,
)
def what_an_empty_text_means() -> str:
    """Somebody said "": it is encoded, whatever force_zeros_for_empty_prompt says."""
    return _stands_for("")


@question("SDXL base with negative_prompt=None: what does it hold then?", choices=WAYS)
def what_nothing_means() -> str:
    """Nobody said anything, and this model's config says zeros."""
    return _stands_for(None)


@question(
    "clip_skip=1 in SDXL, encoders of four layers: which layer do the prompt's states come from, "
    "and which the negative prompt's?"
)
def layers_of_both_sides() -> tuple[int, int]:
    """Of five states the third from the end, and the second: the negative side skips none."""
    embeds, _ = _encoded(1)
    return int(embeds[0, 0, 0]), int(live.sdxl_negative_layer(clip_skip=1))


@question("Does the attention of Stable Diffusion 3 use the attention mask of its text?")
def sd3_uses_its_mask() -> bool:
    """JointAttnProcessor2_0 takes attention_mask and ignores it: padding is always read."""
    heads, width = 2, 8
    with seeded(0):
        weights = live.drawn_joint(width, heads)
        image, text = torch.randn(1, 5, width), torch.randn(1, 4, width)
    hidden = torch.zeros(1, 1, 1, 9, dtype=torch.bool)
    plain = live.joint_of_sd3(image, text, weights, heads)
    masked = live.joint_of_sd3(image, text, weights, heads, attention_mask=hidden)
    return not torch.equal(plain[0], masked[0])


@question(
    "A picture of 16 × 24 tokens and a reference of 16 × 24: by which factor do the scores of "
    "attention grow?"
)
def price_of_a_reference() -> int:
    """Twice the tokens, four times the pairs."""
    tokens = torch.zeros(1, 384, live.CHANNELS)
    seen: list[int] = []

    def predict(given: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        seen.append(given.shape[1])
        return given

    live.through_kontext(predict, tokens, (16, 24), (tokens, (16, 24)))
    return seen[0] ** 2 // 384**2
