"""Lab 05 of diffsynth: the learner's conditions, against pipelines and layers of diffusers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_form,
    assert_matches,
    assert_property,
    assert_raises,
    assert_tensor,
    recorded,
    todo,
    unpack,
)
from infralens.suites.diffsynth.lab_05_conditioning_flow import live

Conditions = dict[str, Tensor]


def assert_pair(answer: Any, library: Any, first: str, second: str, of: str) -> None:
    """Two tensors, both to the bit those of the library."""
    for k, (part, name) in enumerate(
        zip(unpack(answer, first, second), (first, second), strict=True)
    ):
        assert_equals(part, library=lambda k=k: library()[k], what=f"{name} {of}")  # type: ignore[misc]


# 5.1


def draw_output(draw: Draw, rows: int, length: int, width: int, projected: int | None) -> Any:
    """What a text encoder gives: its states, and its pooled vector with a projection or without."""
    pooled = {"pooler_output": draw.latents(rows, width)}
    if projected is not None:
        pooled = {"text_embeds": draw.latents(rows, projected)}
    states = [draw.latents(rows, length, width) for _ in range(5)]
    return {
        "hidden_states": states,
        "last_hidden_state": draw.latents(rows, length, width),
    } | pooled


@todo("5.1")
@pytest.mark.parametrize("clip_skip", [None, 0, 1, 2])
def test_xl_takes_the_states_before_the_last_side_by_side(
    candidate: Any, draw: Draw, clip_skip: int | None
) -> None:
    """StableDiffusionXLPipeline's states and pooled vector of two encoders, to the bit."""
    rows, length = draw.sample(range(2, 6), 2)
    one, two, projected = draw.sample(range(6, 12), 3)
    outputs = [
        draw_output(draw, rows, length, one, None),
        draw_output(draw, rows, length, two, projected),
    ]
    assert_pair(
        candidate.sdxl_conditions(outputs, clip_skip),
        lambda: live.sdxl_encoded(outputs, clip_skip),
        *("embeds", "pooled"),
        f"of two encoders with clip_skip {clip_skip}",
    )


@todo("5.1", guards="the refiner, which has one encoder alone")
def test_the_refiner_has_the_second_encoder_alone(candidate: Any, draw: Draw) -> None:
    """One encoder, with a projection: its states and its pooled vector. Without one: an error."""
    rows, length = draw.sample(range(2, 6), 2)
    width, projected = draw.sample(range(6, 12), 2)
    outputs = [draw_output(draw, rows, length, width, projected)]
    skip = draw.choice([None, 1])
    assert_pair(
        candidate.sdxl_conditions(outputs, skip),
        lambda: live.sdxl_encoded(outputs, skip),
        *("embeds", "pooled"),
        "of one encoder",
    )
    bare = [draw_output(draw, rows, length, width, None)]
    assert_raises(
        lambda: candidate.sdxl_conditions(bare, skip), what="one encoder without text_embeds"
    )


@todo("5.1")
@pytest.mark.parametrize("t5", ["with T5", "without T5", "as wide as both CLIPs"])
def test_sd3_puts_the_clips_side_by_side_and_t5_behind_them(
    candidate: Any, draw: Draw, t5: str
) -> None:
    """StableDiffusion3Pipeline's states and pooled vector of three encoders, to the bit."""
    dtype = torch.bfloat16 if t5 == "without T5" else torch.float32
    rows, length, more = draw.sample(range(2, 6), 3)
    one, two, three, four = draw.sample(range(3, 9), 4)
    width = one + two + (0 if t5 == "as wide as both CLIPs" else draw.integer(2, 5))
    hidden = [draw.latents(rows, length, n, dtype=dtype) for n in (one, two)]
    pooled = [draw.latents(rows, n, dtype=dtype) for n in (three, four)]
    third = None if t5 == "without T5" else draw.latents(rows, more, width, dtype=dtype)
    assert_pair(
        candidate.sd3_conditions(hidden, pooled, third, width, more),
        lambda: live.sd3_encoded(hidden, pooled, third, width, more),
        *("embeds", "pooled"),
        f"of two CLIPs, {t5}",
    )


# 5.2

WORDS = ("fog", "a red cat", "two boats", "blurry", "low quality", "a hill", "text")


@todo("5.2")
@pytest.mark.parametrize("force_zeros", [True, False])
@pytest.mark.parametrize("said", ["nothing", "an empty text", "a text", "a list"])
def test_negatives_are_those_of_xl(
    candidate: Any, draw: Draw, said: str, force_zeros: bool
) -> None:
    """Zeros, the empty text or what was said, as in StableDiffusionXLPipeline; and no more texts
    are encoded than are used.
    """
    prompts, count = draw.sample(WORDS, 5), draw.integer(2, 3)
    prompts, others = prompts[:count], prompts[count:]
    negative: Any = {
        "nothing": None,
        "an empty text": "",
        "a text": others[0],
        "a list": [others[1], "", others[0]][:count],
    }[said]
    texts = [*draw.sample([*WORDS, ""], len(WORDS) + 1)]
    dtype = torch.bfloat16 if force_zeros else torch.float32
    table = live.Table(
        texts,
        draw.latents(len(texts), 3, 6, dtype=dtype),
        draw.latents(len(texts), 5, dtype=dtype),
    )
    answer = candidate.negative_conditions(prompts, negative, force_zeros, table.encode)
    halves = unpack(answer, "the prompts' pair", "the negatives' pair")
    for k, (half, whose) in enumerate(zip(halves, ("prompts", "negatives"), strict=True)):
        assert_pair(
            half,
            lambda k=k: table.through_sdxl(prompts, negative, force_zeros)[k],
            *("embeds", "pooled"),
            f"of the {whose}, {said} said, force_zeros {force_zeros}",
        )
    used = count if negative is None and force_zeros else 2 * count
    assert_equals(len(table.asked), value=used, what="how many texts were encoded")


@todo("5.2", guards="a list that cannot be")
@pytest.mark.parametrize("force_zeros", [True, False])
def test_a_list_needs_a_text_for_each_prompt(candidate: Any, draw: Draw, force_zeros: bool) -> None:
    """More or fewer negative prompts than prompts raise ValueError."""
    prompts = draw.sample(WORDS, 2)
    table = live.Table([*WORDS, ""], draw.latents(8, 3, 6), draw.latents(8, 5))
    for count in (0, 1, 3, 4):
        assert_raises(
            lambda count=count: candidate.negative_conditions(  # type: ignore[misc]
                prompts, draw.sample(WORDS, count), force_zeros, table.encode
            ),
            "ValueError",
            what=f"{count} negative prompts for 2 prompts",
        )


# 5.3


def draw_mask(draw: Draw, counts: Sequence[int], length: int, side: str) -> Tensor:
    """A row of so many ones for each count, padded on this side."""
    mask = torch.zeros(len(counts), length, dtype=torch.int64)
    for row, count in enumerate(counts):
        if side == "right":
            mask[row, :count] = 1
        else:
            mask[row, length - count :] = 1
    return mask


def packed(hidden: Tensor, mask: Tensor, drop: int, length: int) -> tuple[Tensor, Tensor]:
    """Token by token."""
    embeds = torch.zeros(len(hidden), length, hidden.shape[-1], dtype=hidden.dtype)
    kept = torch.zeros(len(hidden), length, dtype=torch.int64)
    for row, real in enumerate(mask.tolist()):
        places = [place for place, one in enumerate(real) if one][drop:]
        for at, place in enumerate(places):
            embeds[row, at], kept[row, at] = hidden[row, place], 1
    return embeds, kept


@todo("5.3", guards="a fixed length and no template, as the library has it")
@pytest.mark.parametrize("more", [0, 2])
def test_padding_is_zeroed_as_wan_does(candidate: Any, draw: Draw, more: int) -> None:
    """WanPipeline's states, padded to a fixed length with zeros and not with what the encoder says
    of padding.
    """
    length, width = draw.integer(6, 8), draw.integer(3, 5)
    counts = draw.sample(range(1, length), 3)
    hidden, mask = draw.latents(3, length, width), draw_mask(draw, counts, length, "right")
    padded = live.Padded(hidden, mask)
    embeds, kept = unpack(candidate.pack_valid(hidden, mask, 0, length + more), "embeds", "mask")
    assert_equals(
        embeds, library=lambda: padded.through_wan(length + more), what=f"rows of {counts} tokens"
    )
    assert_equals(
        kept, value=packed(hidden, mask, 0, length + more)[1], what=f"the mask of {counts} tokens"
    )


@todo("5.3")
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_template_is_dropped_as_qwen_does(candidate: Any, draw: Draw, side: str) -> None:
    """QwenImagePipeline's states and mask: without the template, up to the longest row."""
    drop, width = draw.integer(1, 2), draw.integer(3, 5)
    counts = draw.sample(range(drop + 1, drop + 6), 3)
    length = max(counts) + draw.integer(0, 2)
    half = draw.choice([torch.bfloat16, torch.float16])
    dtype = half if side == "left" else torch.float32
    hidden = draw.latents(3, length, width, dtype=dtype)
    mask = draw_mask(draw, counts, length, side)
    padded = live.Padded(hidden, mask)
    assert_pair(
        candidate.pack_valid(hidden, mask, drop, None),
        lambda: padded.through_qwen(drop),
        *("embeds", "mask"),
        f"of rows of {counts} tokens padded on the {side}, without the first {drop}",
    )


@todo("5.3", guards="a fixed length for rows with a template, padded on either side")
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_template_is_dropped_before_a_fixed_length(candidate: Any, draw: Draw, side: str) -> None:
    """A length that was asked for counts what remains, and may be just that of the longest row."""
    drop, width = draw.integer(1, 3), draw.integer(3, 5)
    counts = draw.sample(range(drop + 1, drop + 6), 3)
    length = max(counts) + draw.integer(1, 2)
    hidden, mask = draw.latents(3, length, width), draw_mask(draw, counts, length, side)
    if side == "left":
        mask = mask.int()  # the answer's is int64 all the same
    for wanted in (max(counts) - drop, length + 1):
        assert_pair(
            candidate.pack_valid(hidden, mask, drop, wanted),
            lambda wanted=wanted: packed(hidden, mask, drop, wanted),
            *("embeds", "mask"),
            f"of rows of {counts} tokens without the first {drop}, to {wanted}",
        )


@todo("5.3", guards="rows that do not fit")
@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_that_do_not_fit_are_an_error(candidate: Any, draw: Draw, side: str) -> None:
    """A row that is longer than the length, or that is all template, raises ValueError."""
    length, width = draw.integer(6, 8), draw.integer(3, 5)
    counts = draw.sample(range(3, length), 2)
    hidden, mask = draw.latents(2, length, width), draw_mask(draw, counts, length, side)
    calls = [
        (0, max(counts) - 1),
        (1, max(counts) - 2),
        (min(counts), None),
        (min(counts), length),
        (min(counts) + 1, length),
        (0, 0),
    ]
    for drop, wanted in calls:
        assert_raises(
            lambda drop=drop, wanted=wanted: candidate.pack_valid(  # type: ignore[misc]
                hidden, mask, drop, wanted
            ),
            "ValueError",
            what=f"rows of {counts} tokens without the first {drop}, to {wanted}",
        )


# 5.4


def draw_linear(
    draw: Draw, name: str, out: int, width: int, bias: bool = True
) -> dict[str, Tensor]:
    """A linear layer's weights, lively enough that a softmax behind it is not flat."""
    weights = {f"{name}.weight": draw.latents(out, width) * 1.5 / math.sqrt(width)}
    return weights | ({f"{name}.bias": draw.latents(out) / 2} if bias else {})


def draw_joint(draw: Draw, width: int, heads: int) -> dict[str, Tensor]:
    """The weights of a joint attention whose heads are of different size before they are normed."""
    names = ("to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj")
    weights: dict[str, Tensor] = {}
    for name in (*names, "to_add_out"):
        weights |= draw_linear(draw, name, width, width)
    # The first so small that the 1e-6 below the root is a good part of the mean.
    sizes = torch.tensor([5e-4, 1.0, 4.0, 0.5])[:heads].repeat_interleave(width // heads)
    for name in ("to_q", "to_k", "add_q_proj", "add_k_proj"):
        weights[f"{name}.weight"] = weights[f"{name}.weight"] * sizes[:, None]
        weights[f"{name}.bias"] = weights[f"{name}.bias"] * sizes
    for name in ("norm_q", "norm_k", "norm_added_q", "norm_added_k"):
        weights[f"{name}.weight"] = 1 + draw.tensor(width // heads, low=-0.5, high=0.5)
    return weights


def linear(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    """The layer of this name, in float64."""
    bias = weights.get(f"{name}.bias")
    result = x.double() @ weights[f"{name}.weight"].double().T
    return result if bias is None else result + bias.double()


def normed(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    """Zhang and Sennrich 2019, equation 4, with the ε of the layers."""
    return (
        x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weights[f"{name}.weight"].double()
    )


def shares(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    """Vaswani et al. 2017, section 3.2.1, over the keys that are seen."""
    likeness = torch.einsum("bnd,bmd->bnm", q, k) / math.sqrt(q.shape[-1])
    share = (likeness - likeness.amax(-1, keepdim=True)).exp() * seen[:, None]
    return share / share.sum(-1, keepdim=True)


def joined(
    image: Tensor, text: Tensor, weights: dict[str, Tensor], heads: int, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Joint attention in float64, head by head."""
    n, gathered = image.shape[1], []
    kept = torch.ones(text.shape[:2]) if mask is None else mask
    seen = torch.cat([torch.ones(image.shape[:2]), kept], dim=1)

    def both(own: str, added: str, norms: tuple[str, str] | None) -> list[Tensor]:
        parts = [linear(image, weights, own), linear(text, weights, added)]
        split = [part.chunk(heads, dim=-1) for part in parts]
        if norms is not None:
            split = [
                tuple(normed(head, weights, norm) for head in part)
                for part, norm in zip(split, norms, strict=True)
            ]
        return [torch.cat(pair, dim=1) for pair in zip(*split, strict=True)]

    query = both("to_q", "add_q_proj", ("norm_q", "norm_added_q"))
    key = both("to_k", "add_k_proj", ("norm_k", "norm_added_k"))
    value = both("to_v", "add_v_proj", None)
    for q, k, v in zip(query, key, value, strict=True):
        gathered.append(shares(q, k, seen) @ v)
    whole = torch.cat(gathered, dim=-1)
    return linear(whole[:, :n], weights, "to_out.0"), linear(whole[:, n:], weights, "to_add_out")


def assert_joint(candidate: Any, draw: Draw, sizes: str, masked: bool, library: Any) -> None:
    """Picture and text after one attention over both are the library's."""
    heads, size = draw.choice([2, 3, 4]), draw.choice([4, 6])
    n, m = draw.sample(range(4, 8), 2)
    if sizes == "as many tokens of text":
        n = m
    image, text = draw.latents(2, n, heads * size), draw.latents(2, m, heads * size)
    mask = None
    if masked:
        mask = draw.tensor(2, m) < 0.6
        for row in range(2):
            mask[row, row], mask[row, row + 1] = False, True
    weights = draw_joint(draw, heads * size, heads)
    answer = candidate.joint_attention(image, text, weights, heads, mask)
    for k, (part, name) in enumerate(
        zip(unpack(answer, "image", "text"), ("picture", "text"), strict=True)
    ):
        assert_matches(
            part,
            library=lambda k=k: library(image, text, weights, heads, mask)[k],  # type: ignore[misc]
            truth=lambda k=k: joined(image, text, weights, heads, mask)[k],  # type: ignore[misc]
            what=f"the {name} after joint attention of {n} and {m} tokens",
        )


SAME = "as many tokens of text"


@todo("5.4", guards="a call without a mask")
@pytest.mark.parametrize("sizes", ["different sizes", SAME])
def test_both_streams_are_attended_to_as_in_sd3(candidate: Any, draw: Draw, sizes: str) -> None:
    """Without a mask, picture and text are those of Attention with JointAttnProcessor2_0."""

    def library(image: Tensor, text: Tensor, weights: Any, heads: int, _: None) -> live.Pair:
        return live.joint_of_sd3(image, text, weights, heads)

    assert_joint(candidate, draw, sizes, False, library)


@todo("5.4")
@pytest.mark.parametrize("sizes", ["different sizes", SAME])
def test_masked_text_is_no_key_as_in_flux(candidate: Any, draw: Draw, sizes: str) -> None:
    """With a mask, picture and text are those of FluxAttention; masked tokens ask and are not
    asked.
    """
    assert_joint(candidate, draw, sizes, True, live.joint_of_flux)


# 5.5


def draw_prompted(draw: Draw, adapters: int) -> tuple[Tensor, Tensor, list[Tensor], Any, int]:
    """Hidden states, a text, tokens of so many image prompts, weights and heads."""
    heads, size = draw.choice([2, 3, 4]), draw.choice([4, 5, 6])
    width, context = draw.sample([9, 10, 13], 2)
    inner = heads * size
    weights = {
        **draw_linear(draw, "to_q", inner, width, bias=False),
        **draw_linear(draw, "to_k", inner, context, bias=False),
        **draw_linear(draw, "to_v", inner, context, bias=False),
        **draw_linear(draw, "to_out.0", width, inner),
    }
    for i in range(adapters):
        weights |= draw_linear(draw, f"to_k_ip.{i}", inner, context, bias=False)
        weights |= draw_linear(draw, f"to_v_ip.{i}", inner, context, bias=False)
    n, m, *counts = draw.sample(range(3, 9), 2 + adapters)
    images = [draw.latents(2, count, context) for count in counts]
    return draw.latents(2, n, width), draw.latents(2, m, context), images, weights, heads


def prompted(
    hidden: Tensor,
    text: Tensor,
    images: Sequence[Tensor],
    weights: dict[str, Tensor],
    heads: int,
    scales: Sequence[float],
) -> Tensor:
    """Ye and others 2023, equation 5, in float64, head by head."""
    query, gathered = linear(hidden, weights, "to_q").chunk(heads, dim=-1), []
    parts = [(1.0, text, "to_k", "to_v")]
    for i, (image, scale) in enumerate(zip(images, scales, strict=True)):
        parts.append((scale, image, f"to_k_ip.{i}", f"to_v_ip.{i}"))
    for head in range(heads):
        total: Tensor | float = 0.0
        for scale, context, keys, values in parts:
            k = linear(context, weights, keys).chunk(heads, dim=-1)[head]
            v = linear(context, weights, values).chunk(heads, dim=-1)[head]
            total = total + scale * (shares(query[head], k, torch.ones(k.shape[:2])) @ v)
        gathered.append(total)
    return linear(torch.cat(gathered, dim=-1), weights, "to_out.0")  # type: ignore[arg-type]


@todo("5.5")
@pytest.mark.parametrize("signs", ["+-", "+", "-+0"])
def test_image_prompts_have_an_attention_of_their_own(
    candidate: Any, draw: Draw, signs: str
) -> None:
    """Text and image prompts are attended to as IPAdapterAttnProcessor2_0 does, for scales of any
    sign and 0.
    """
    values = {"+": (0.4, 1.1), "-": (-1.1, -0.4), "0": (0.0, 0.0)}
    scales = [draw.uniform(*values[sign]) for sign in signs]
    hidden, text, images, weights, heads = draw_prompted(draw, len(signs))
    assert_matches(
        candidate.image_prompt_attention(hidden, text, images, weights, heads, scales),
        library=lambda: live.image_prompted(hidden, text, images, weights, heads, scales),
        truth=lambda: prompted(hidden, text, images, weights, heads, scales),
        what=f"what was gathered with scales {scales}",
    )


@todo("5.5", guards="image prompts that are switched off")
def test_image_prompts_of_scale_zero_leave_the_text_alone(candidate: Any, draw: Draw) -> None:
    """With all scales 0, and with no image prompts at all, it is the attention to the text."""
    hidden, text, images, weights, heads = draw_prompted(draw, 2)
    for given, scales in ((images, [0.0, 0.0]), ([], [])):
        assert_property(
            candidate.image_prompt_attention(hidden, text, given, weights, heads, scales),
            equals=lambda: prompted(hidden, text, [], weights, heads, []).float(),
            what=f"what was gathered with scales {scales}",
            ulps=1024,
        )


@todo("5.5", guards="image prompts and scales that do not match")
def test_every_image_prompt_needs_a_scale(candidate: Any, draw: Draw) -> None:
    """More or fewer scales than image prompts raise ValueError."""
    hidden, text, images, weights, heads = draw_prompted(draw, 2)
    calls = [(images, 1), (images, 3), (images[:1], 2), ([], 1)]
    for given, count in calls:
        scales = [draw.uniform(0.3, 0.9) for _ in range(count)]
        assert_raises(
            lambda given=given, scales=scales: candidate.image_prompt_attention(  # type: ignore[misc]
                hidden, text, given, weights, heads, scales
            ),
            "ValueError",
            what=f"{len(given)} image prompts and {count} scales",
        )


# 5.6


def assert_rows(answer: Any, expected: Any, names: Sequence[str], what: str) -> None:
    """Every entry has the rows that are expected, and there is no other."""
    assert_form(answer, dict.fromkeys(names, "Tensor"), what=what)
    for name in names:
        assert_equals(
            answer[name],
            library=lambda name=name: expected()[name],  # type: ignore[misc]
            what=f"{name} {what}",
        )


def draw_conditions(draw: Draw, prompts: int, length: int, prefix: str = "") -> Conditions:
    """What StableDiffusionXLPipeline gives its UNet, for so many prompts; sizes in one row."""
    return {
        "encoder_hidden_states": draw.latents(prompts, length, 6),
        "text_embeds": draw.latents(prompts, 5),
        "time_ids": live.time_ids(prefix),
    }


@todo("5.6", guards="what enters a live UNet")
@pytest.mark.parametrize(
    ("prompts", "images", "guided"), [(2, 3, True), (2, 2, False), (3, 2, True), (1, 3, True)]
)
def test_rows_are_those_that_the_unet_gets(
    candidate: Any, draw: Draw, prompts: int, images: int, guided: bool
) -> None:
    """Every entry has the rows that enter the UNet of StableDiffusionXLPipeline."""
    length = draw.integer(2, 4)
    positive = draw_conditions(draw, prompts, length)
    negative = draw_conditions(draw, prompts, length) if guided else None
    assert_rows(
        candidate.batch_conditions(positive, negative, images),
        partial(live.into_unet, positive, negative, images),
        list(positive),
        f"of {prompts} prompt(s), {images} images each, {'guided' if guided else 'not guided'}",
    )


@todo("5.6", guards="a size of its own for the negative side, in a single row")
def test_a_negative_size_goes_with_its_own_half(candidate: Any, draw: Draw) -> None:
    """One prompt with negative sizes, as they enter the UNet."""
    positive, negative = draw_conditions(draw, 1, 3), draw_conditions(draw, 1, 3, "negative")
    assert_rows(
        candidate.batch_conditions(positive, negative, 1),
        partial(live.into_unet, positive, negative, 1, **live.NEGATIVE),
        list(positive),
        "of one prompt with negative sizes",
    )


def laid_out(
    positive: Conditions, negative: Conditions | None, prompts: int, images: int
) -> Conditions:
    """Row by row: the negative half first, and in each the images of a prompt together."""
    halves = [positive] if negative is None else [negative, positive]
    return {
        name: torch.stack(
            [
                half[name][prompt if len(half[name]) > 1 else 0]
                for half in halves
                for prompt in range(prompts)
                for _ in range(images)
            ]
        )
        for name in positive
    }


@todo("5.6")
@pytest.mark.parametrize("guided", [True, False])
def test_every_entry_has_the_same_rows(candidate: Any, draw: Draw, guided: bool) -> None:
    """Sizes, one number a prompt, and pictures: in every entry row k belongs to the same image."""
    prompts, images = draw.sample(range(2, 5), 2)

    def draw_all(shared: Sequence[str]) -> Conditions:
        # The first is shared on one side alone: its rows are not those of all, and it is right
        # where halves alternate only in what both share.
        shapes = {"picture": (2, 3, 5), "embeds": (3, 4), "time_ids": (6,), "strength": ()}
        return {
            name: draw.latents(1 if name in shared else prompts, *shape)
            for name, shape in shapes.items()
        }

    positive = draw_all(["time_ids", "picture"])  # an entry may be shared on one side alone
    shared = ["time_ids", draw.choice(["embeds", "strength"])]
    negative = draw_all(shared) if guided else None
    assert_rows(
        candidate.batch_conditions(positive, negative, images),
        partial(laid_out, positive, negative, prompts, images),
        list(positive),
        f"of {prompts} prompts, {images} images each, {'guided' if guided else 'not guided'}",
    )
    if negative is not None:  # one side may share everything
        alone = {name: value[:1] for name, value in positive.items()}
        assert_rows(
            candidate.batch_conditions(alone, negative, images),
            partial(laid_out, alone, negative, prompts, images),
            list(alone),
            f"of {prompts} prompts that differ in their negatives alone, {images} images each",
        )


# 5.7


def draw_denoiser(draw: Draw) -> Any:
    """A function in which every token looks at all of them, and at all positions."""
    mixed, places = draw.latents(live.CHANNELS, live.CHANNELS) / 8, draw.latents(3, live.CHANNELS)

    def predict(tokens: Tensor, ids: Tensor) -> Tensor:
        placed = tokens + ids.float() @ places
        return (placed @ mixed @ placed.transpose(1, 2) / 64).softmax(dim=-1) @ placed

    return predict


def draw_picture(draw: Draw, rows: int, grid: tuple[int, int]) -> Any:
    return draw.latents(rows, math.prod(grid), live.CHANNELS), grid


def assert_edited(candidate: Any, predict: Any, pictures: Sequence[Any], reference: Any) -> None:
    """One call with the tokens and positions of the reference, and its tokens of the picture."""
    (tokens, grid), *references = pictures
    denoiser = recorded(predict)
    answer = candidate.edit_prediction(denoiser, tokens, grid, references)
    what = f"with {len(references)} reference(s)"
    assert_equals(len(denoiser.calls), value=1, what=f"how often the denoiser was called {what}")
    (given, ids), (right_tokens, right_ids) = denoiser.calls[0], reference()[0]
    assert_tensor(given, like=right_tokens, what=f"the tokens of the denoiser {what}")
    assert_tensor(ids, shape=tuple(right_ids.shape), what=f"the ids of the denoiser {what}")
    assert_equals(given, value=right_tokens, what=f"the tokens of the denoiser {what}")
    assert_equals(ids.double(), value=right_ids.double(), what=f"the ids of the denoiser {what}")
    assert_property(answer, equals=lambda: reference()[1], what=f"the prediction {what}")


@todo("5.7", guards="what the library does with its one reference")
@pytest.mark.parametrize("grids", ["different grids", "equal grids"])
def test_a_reference_joins_the_sequence_as_in_kontext(
    candidate: Any, draw: Draw, grids: str
) -> None:
    """The tokens and ids that FluxKontextPipeline gives its transformer, and what it steps with."""
    rows, predict = draw.integer(2, 3), draw_denoiser(draw)
    height, width, other = draw.sample(range(2, 6), 3)
    grid = (height, width)
    picture = draw_picture(draw, rows, grid)
    shown = draw_picture(draw, rows, grid if grids == "equal grids" else (other, height))

    def library() -> tuple[tuple[Tensor, Tensor], Tensor]:
        calls = recorded(predict)
        tokens, sides = picture
        stepped = live.through_kontext(calls, tokens, sides, shown)
        return calls.calls[0], stepped

    assert_edited(candidate, predict, [picture, shown], library)


@todo("5.7")
@pytest.mark.parametrize("count", [0, 2, 3])
def test_every_reference_has_a_number_of_its_own(candidate: Any, draw: Draw, count: int) -> None:
    """References are told apart by the first number of their ids, and by nothing else."""
    rows, predict = draw.integer(2, 3), draw_denoiser(draw)
    grids = [(2, 3), (3, 2)][: 1 + count]  # as many tokens on another grid, whatever is drawn
    for _ in range(count - 1):
        height, width = draw.sample(range(1, 4), 2)
        grids.append((height, width))
    pictures = [draw_picture(draw, rows, grid) for grid in grids]

    def formula() -> tuple[tuple[Tensor, Tensor], Tensor]:
        ids = [
            (number, row, column)
            for number, (_, (height, width)) in enumerate(pictures)
            for row in range(height)
            for column in range(width)
        ]
        call = torch.cat([tokens for tokens, _ in pictures], dim=1), torch.tensor(ids)
        return call, predict(*call)[:, :6]

    assert_edited(candidate, predict, pictures, formula)
