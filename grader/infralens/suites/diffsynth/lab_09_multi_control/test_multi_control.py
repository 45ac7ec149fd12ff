"""Lab 09 of diffsynth: the learner's rules against diffusers, where several conditions meet."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from diffusers.guiders import ClassifierFreeGuidance
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_agrees,
    assert_calls,
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_property,
    assert_raises,
    assert_tensor,
    comparable,
    fetch,
    given,
    keep,
    recorded,
    todo,
    unpack,
)
from infralens.suites import schedulers
from infralens.suites.diffsynth.lab_09_multi_control import live

BESIDE = Path(__file__).with_name("beside.py").read_text(encoding="utf-8")


def how_many(tensors: Any) -> Any:
    """The length of a list or tuple; of anything else what it is."""
    return len(tensors) if isinstance(tensors, list | tuple) else f"a {type(tensors).__name__}"


def nth(tensors: Callable[[], Sequence[Tensor]], number: int) -> Callable[[], Tensor]:
    """One of the tensors, when it is asked for."""
    return lambda: tensors()[number]


def draw_weights(draw: Draw, count: int) -> list[float]:
    """As many weights, each far from the others, from 0 and from 1; one of them is below 0.

    The sum of one, three or four is neither 0 nor 1.
    """
    above = draw.sample([(0.2, 0.4), (0.6, 0.8), (1.4, 1.8), (2.3, 2.7)], count - 1)
    ranges = draw.sample([(-0.5, -0.3), *above], count)
    return [draw.uniform(low, high) for low, high in ranges]


# 9.1


def summed(
    features: Sequence[Sequence[Tensor]], weights: Sequence[float] | None, level: int
) -> Tensor:
    """The weighted sum of a level, in float64."""
    shares = weights or [1 / len(features)] * len(features)
    parts = [w * each[level].double() for w, each in zip(shares, features, strict=True)]
    return sum(parts[1:], parts[0])


@todo("9.1")
@pytest.mark.parametrize(
    ("count", "weighted"), [(2, False), (3, True), (3, False)], ids=["mean", "weights", "mean of 3"]
)
def test_adapters_are_merged_level_by_level(
    candidate: Any, draw: Draw, count: int, weighted: bool
) -> None:
    """merge_features gives MultiAdapter's features: a weighted sum, or without weights the mean."""
    pictures = [draw.tensor(2, 3, 8, 12) for _ in range(count)]
    features = [live.features_of(number, picture) for number, picture in enumerate(pictures)]
    weights = draw_weights(draw, count) if weighted else None
    answer = candidate.merge_features(features, weights)
    levels = how_many(answer)
    assert_equals(levels, value=len(features[0]), what="the number of levels")
    for level, merged in enumerate(answer):
        assert_matches(
            merged,
            library=nth(lambda: live.merged(pictures, weights), level),
            truth=functools.partial(summed, features, weights, level),
            what=f"level {level} of {count} adapters",
        )


def draw_way(draw: Draw, counts: tuple[int, ...]) -> tuple[live.Way, list[Tensor]]:
    """A UNet's way down and the features of an adapter for it."""
    batch, (height, width) = draw.integer(2, 3), draw.sample([4, 8, 12], 2)
    way = live.Way(
        live.unet(counts),
        draw.latents(batch, live.CHANNELS, height, width),
        torch.tensor(draw.integer(40, 90)),
        draw.latents(batch, 3, live.TEXT),
    )
    return way, [draw.latents(*shape) for shape in way.shapes()]


@todo("9.1", again=False)
@pytest.mark.parametrize("counts", [(2, 2), (1, 3, 2)], ids=str)
def test_features_enter_on_the_way_down(
    candidate: Any, draw: Draw, counts: tuple[int, ...]
) -> None:
    """The skips and the middle's input are those of UNet2DConditionModel with an adapter."""
    way, features = draw_way(draw, counts)
    layer, downsample = recorded(way.layer, "layer"), recorded(way.downsample, "downsample")
    answer = candidate.adapter_down_path(layer, downsample, way.begun(), list(counts), features)
    hidden, skips = unpack(answer, "hidden", "skips")
    library = functools.cache(lambda: way.watched(features))
    order = [(*layer_call[:2],) for layer_call in layer.calls]
    assert_equals(
        order,
        value=[(i, j) for i, count in enumerate(counts) for j in range(count)],
        what="the layers that were called",
    )
    count = how_many(skips)
    assert_equals(count, library=lambda: len(library()[1]), what="the number of skips")
    for number, skip in enumerate(skips):
        assert_agrees(skip, library=nth(lambda: library()[1], number), what=f"skip {number}")
    assert_agrees(hidden, library=lambda: library()[0], what="what the middle block is given")


@todo("9.1", guards="nothing that was given or kept is changed afterwards")
def test_what_was_given_is_left_as_it_is(candidate: Any, draw: Draw) -> None:
    """Features and hidden are afterwards what they were, and the first skip is hidden as given."""
    features = [[draw.latents(2, 3, 4, 5)] for _ in range(2)]
    kept = keep(candidate, features)
    for _ in range(2):
        (merged,) = unpack(candidate.merge_features(kept, [1.5, -0.5]), "level 0")
        assert_matches_formula(
            merged,
            computed=lambda: 1.5 * features[0][0] - 0.5 * features[1][0],
            truth=lambda: summed(features, [1.5, -0.5], 0),
            what="the same features merged twice",
        )
    idle = given(candidate, BESIDE).idle_layer()
    hidden, feature = draw.latents(2, 3, 4, 5), draw.latents(2, 3, 4, 5)
    answer = candidate.adapter_down_path(idle, idle, hidden, [2, 1], [feature, -feature / 2])
    _, skips = unpack(answer, "hidden", "skips")
    count = how_many(skips)
    assert_equals(count, value=5, what="the number of skips")
    for number, skip in enumerate(skips[:4]):
        assert_property(
            skip,
            equals=functools.partial(torch.add, hidden, feature, alpha=int(number > 1)),
            what=f"skip {number} of layers that change nothing",
        )
    before = keep(candidate, [feature])
    candidate.adapter_down_path(idle, idle, hidden, [1], before)
    after = fetch(before)
    left = how_many(after)
    assert_equals(left, value=1, what="how many features the given list has after the call")
    assert_equals(after[0], value=feature, what="the feature after the call")


@todo("9.1", guards="what does not fit")
def test_features_that_do_not_fit_are_errors(candidate: Any, draw: Draw) -> None:
    """Numbers of weights, of levels and of features that do not fit raise ValueError."""
    one, two = draw.latents(2, 3, 4, 5), [draw.latents(2, 3, 4, 5)] * 2
    calls = [([two, two], weights) for weights in ([1.0], [1.0, 0.5, 0.2], [])]
    calls.append(([two, two[:1]], [1.0, 0.5]))
    for features, weights in (*calls, ([two[:1], two], None)):
        assert_raises(
            lambda features=features, weights=weights: (  # type: ignore[misc]
                candidate.merge_features(features, weights)
            ),
            "ValueError",
            what=f"merging {[len(each) for each in features]} levels with "
            f"{'no' if weights is None else len(weights)} weights",
        )
    idle = recorded(lambda *given: given[-1], "layer")
    for count in (1, 3):
        assert_raises(
            lambda count=count: candidate.adapter_down_path(  # type: ignore[misc]
                idle, idle, one, [1, 1], [one] * count
            ),
            "ValueError",
            what=f"a way down of 2 levels with {count} features",
        )


# 9.2


def weights_in_float64(mask: Tensor, rows: int, columns: int, tokens: int) -> Tensor:
    """A mask at so many rows and columns, read row by row, and zeros behind it."""
    small = F.interpolate(mask.double()[None, None], size=(rows, columns), mode="bicubic")
    return F.pad(small.flatten(), (0, tokens - rows * columns))


# (height and width of the mask, tokens, the rows that follow): as a layer's own grid, and misfits
GRIDS = [
    ((16, 24), 24, 4),
    ((24, 16), 24, 6),
    ((12, 12), 7, 3),
    ((16, 24), 26, 5),
    ((20, 12), 34, 8),
]


@todo("9.2")
@pytest.mark.parametrize(("size", "tokens", "rows"), GRIDS)
def test_a_mask_becomes_a_weight_for_each_token(
    candidate: Any, draw: Draw, size: tuple[int, int], tokens: int, rows: int
) -> None:
    """region_weights are those of IPAdapterMaskProcessor, where the grid does not fit too."""
    mask = draw.tensor(*size)
    mask[:4, :4], mask[1:3, 1:3] = 0.0, 1.0  # of a dot the bicubic weight is above 1
    assert_matches(
        candidate.region_weights(mask, tokens),
        library=lambda: live.downsampled(mask, tokens),
        truth=lambda: weights_in_float64(mask, rows, tokens // rows, tokens),
        what=f"a mask of {size[0]} × {size[1]} at {tokens} tokens",
    )


def attended(query: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
    """Attention in float64, head by head."""
    width = query.shape[-1] // heads
    parts = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        q, k, v = query[..., part], keys[..., part], values[..., part]
        scores = q.double() @ k.double().transpose(1, 2) / width**0.5
        parts.append(scores.softmax(-1) @ v.double())
    return torch.cat(parts, dim=-1)


@todo("9.2")
@pytest.mark.parametrize("kind", ["all masked", "one everywhere", "none masked, one off"])
def test_image_prompts_are_attended_to_apart(candidate: Any, draw: Draw, kind: str) -> None:
    """The result is IPAdapterAttnProcessor2_0's, each picture with its scale and its mask."""
    heads = draw.choice([2, 4])
    batch, (rows, columns) = draw.integer(2, 3), draw.sample([2, 3, 4], 2)
    tokens = rows * columns
    scene = live.ImagePrompts(
        live.attention(heads),
        heads,
        draw.latents(batch, tokens, 8 * heads),
        draw.latents(batch, 5, live.TEXT),
        (draw.latents(batch, 2, 4, live.TEXT), draw.latents(batch, 1, 6, live.TEXT)),
    )
    masks: list[Any] = [draw.tensor(4 * rows, 4 * columns) for _ in range(3)]
    scales = draw_weights(draw, 3)
    if kind == "one everywhere":
        masks[2] = None
    if kind == "none masked, one off":
        masks[2], scales[0] = None, 0.0
    query, text, pictures = scene.query(), scene.of_text(), scene.of_pictures()
    answer = candidate.ip_attention(query, text, pictures, scales, masks, heads)

    def truth() -> Tensor:
        out = attended(query, *text, heads)
        for (keys, values), scale, mask in zip(pictures, scales, masks, strict=True):
            part = scale * attended(query, keys, values, heads)
            if mask is not None:
                part = part * weights_in_float64(mask, rows, columns, tokens)[:, None]
            out = out + part
        return out

    assert_matches(
        answer,
        library=lambda: scene.output(scales, masks),
        truth=truth,
        what=f"attention to text and three pictures, {kind}",
    )


@todo("9.2", guards="as many scales and masks as pictures")
@pytest.mark.parametrize("short", ["images", "scales", "masks"])
def test_every_picture_has_a_scale_and_a_mask(candidate: Any, draw: Draw, short: str) -> None:
    """Lists of different lengths raise ValueError."""
    query, keys = draw.latents(2, 4, 6), draw.latents(2, 3, 6)
    lists: dict[str, list[Any]] = {
        "images": [(keys, keys)] * 2,
        "scales": [0.5, 0.7],
        "masks": [None, None],
    }
    lists[short] = lists[short][:1]
    assert_raises(
        lambda: candidate.ip_attention(query, (keys, keys), *lists.values(), 2),
        "ValueError",
        what=f"one entry in {short} and two in the others",
    )


# 9.3


def draw_regions(draw: Draw, height: int, width: int) -> list[Tensor]:
    """Three regions: a pixel in all, one in none, one in each alone, and two just not inside."""
    masks = [draw.tensor(height, width) for _ in range(3)]
    places = draw.sample(range(height * width), 7)
    inside = [(0.9, 0.8, 0.7), (0.1, 0.3, 0.2), (0.1, 0.9, 0.1), (0.1, 0.2, 0.6), (0.9, 0.5, 0.1)]
    inside += [(0.2, 0.6, 0.9), (0.5, 0.2, 0.5)]
    for place, values in zip(places, inside, strict=True):
        for mask, value in zip(masks, values, strict=True):
            mask.view(-1)[place] = value
    return masks


def prompts_of(masks: Sequence[Tensor], pixel: int) -> list[int]:
    """The prompts of a pixel."""
    found = [r for r, mask in enumerate(masks) if float(mask.flatten()[pixel]) > 0.5]
    return found or [0]


def tokens_of(lengths: Sequence[int], prompt: int) -> list[int]:
    """The places of a prompt's tokens."""
    begin = sum(lengths[:prompt])
    return list(range(begin, begin + lengths[prompt]))


def draw_scene(draw: Draw, prompts: int) -> tuple[list[Tensor], list[int], int]:
    """Masks, lengths and the number of pixels."""
    height, width = draw.sample([3, 4, 5], 2)
    masks = draw_regions(draw, height, width)[:prompts]
    return masks, draw.sample([1, 2, 3, 4], prompts), height * width


@todo("9.3")
@pytest.mark.parametrize("prompts", [3, 1])
def test_a_bias_keeps_pixels_to_their_prompts(candidate: Any, draw: Draw, prompts: int) -> None:
    """Attention with cross_bias gives each pixel what it gets from its own prompts alone."""
    masks, lengths, pixels = draw_scene(draw, prompts)
    bias = candidate.cross_bias(masks, lengths)
    assert_tensor(
        bias, shape=(pixels, sum(lengths)), dtype=torch.float32, finite=False, what="the bias"
    )
    states, text = draw.latents(2, pixels, 16), draw.latents(2, sum(lengths), live.TEXT)
    looks = [
        [token for r in prompts_of(masks, pixel) for token in tokens_of(lengths, r)]
        for pixel in range(pixels)
    ]
    assert_agrees(
        live.biased(states, text, bias),
        library=lambda: live.one_by_one(states, text, looks),
        what="attention with this bias, a row for each pixel",
    )


@todo("9.3")
@pytest.mark.parametrize("prompts", [3, 2])
def test_a_mask_keeps_texts_apart_in_joint_attention(
    candidate: Any, draw: Draw, prompts: int
) -> None:
    """FluxAttention with joint_mask gives each token what it gets from those it may look at."""
    masks, lengths, pixels = draw_scene(draw, prompts)
    words = sum(lengths)
    mask = candidate.joint_mask(masks, lengths)
    side = words + pixels
    assert_tensor(mask, shape=(side, side), dtype=torch.bool, what="the mask")
    looks = []
    for r in range(prompts):
        region = [words + pixel for pixel in range(pixels) if r in prompts_of(masks, pixel)]
        looks += [tokens_of(lengths, r) + region] * lengths[r]
    for pixel in range(pixels):
        own = [token for r in prompts_of(masks, pixel) for token in tokens_of(lengths, r)]
        looks.append(own + list(range(words, side)))
    text, picture = draw.latents(2, words, 16), draw.latents(2, pixels, 16)
    assert_agrees(
        live.joined(text, picture, mask),
        library=lambda: live.joined_one_by_one(text, picture, looks),
        what="joint attention with this mask, the text's rows first",
    )


@todo("9.3", guards="as many lengths as masks")
@pytest.mark.parametrize("name", ["cross_bias", "joint_mask"])
def test_every_prompt_has_a_region(candidate: Any, draw: Draw, name: str) -> None:
    """More masks than prompts, or fewer, raise ValueError."""
    masks = [draw.tensor(3, 4) for _ in range(2)]
    for lengths in ([3], [1, 2, 3]):
        assert_raises(
            lambda lengths=lengths: getattr(candidate, name)(masks, lengths),  # type: ignore[misc]
            "ValueError",
            what=f"{name} of 2 masks and {len(lengths)} lengths",
        )


# 9.4


def draw_mask(draw: Draw, *shape: int) -> Tensor:
    """A soft mask in which 0.5 stands at some places."""
    mask = draw.tensor(*shape)
    flat = mask.view(-1)
    places = draw.sample(range(flat.numel()), max(flat.numel() // 4, 1))
    flat[torch.tensor(places)] = 0.5
    return mask


@todo("9.4")
@pytest.mark.parametrize("masks", ["one", "each"])
def test_what_is_repainted_is_hidden(candidate: Any, draw: Draw, masks: str) -> None:
    """hide gives the picture that StableDiffusionInpaintPipeline gives its VAE."""
    height, width = draw.sample([1, 2, 3], 2)
    picture = draw.tensor(2, 3, height * live.PIXELS, width * live.PIXELS)
    mask = draw_mask(draw, 1 if masks == "one" else 2, 1, *picture.shape[-2:])
    embeds, latents = draw.latents(2, 3, live.TEXT), draw.latents(2, 4, height, width)
    assert_equals(
        candidate.hide(2 * picture - 1, mask),
        library=lambda: live.inpainted(
            latents,
            picture,
            mask,
            schedulers.scheduler("DDIMScheduler"),
            prompt_embeds=embeds,
            guidance_scale=1.0,
            num_inference_steps=1,
        ).encoded[0],
        what="the picture that is encoded",
    )


@todo("9.4")
@pytest.mark.parametrize(
    ("guidance", "masks", "pictures"), [(False, 4, 1), (True, 1, 4), (True, 2, 2)]
)
def test_nine_channels_enter_an_inpainting_unet(
    candidate: Any, draw: Draw, guidance: bool, masks: int, pictures: int
) -> None:
    """inpaint_input is what StableDiffusionInpaintPipeline gives its UNet, by Euler."""
    batch, (height, width) = 4, draw.sample([2, 3, 4], 2)
    noise = draw.latents(batch, live.CHANNELS, height, width)
    mask = draw_mask(draw, masks, 1, height * live.PIXELS, width * live.PIXELS)
    around = draw.latents(pictures, live.CHANNELS, height, width)
    scheduler = schedulers.scheduler("EulerDiscreteScheduler")
    scheduler.set_timesteps(draw.integer(3, 9))
    start = noise * scheduler.init_noise_sigma
    scaled = scheduler.scale_model_input(start, scheduler.timesteps[0])
    embeds = draw.latents(batch, 3, live.TEXT)
    assert_equals(
        candidate.inpaint_input(scaled, mask, around, guidance),
        library=lambda: live.inpainted(
            noise,
            mask.expand(-1, 3, -1, -1),  # any picture: it is hidden behind `around`
            mask,
            schedulers.twin(scheduler),
            masked_image_latents=around,
            prompt_embeds=embeds,
            negative_prompt_embeds=-embeds,
            guidance_scale=3.0 if guidance else 1.0,
            num_inference_steps=len(scheduler.timesteps),
        ).calls[0][0],
        what="what the UNet is given",
    )


@todo("9.4", guards="rows that cannot be repeated")
@pytest.mark.parametrize("which", ["mask", "masked latents"])
def test_rows_that_do_not_divide_the_batch_are_errors(
    candidate: Any, draw: Draw, which: str
) -> None:
    """A number of masks, or of masked latents, that does not divide the batch raises ValueError."""
    batch = draw.choice([3, 5, 7])  # 2 divides what is doubled
    latents = draw.latents(batch, 4, 2, 3)
    mask = draw_mask(draw, 2 if which == "mask" else 1, 1, 16, 24)
    around = draw.latents(2 if which == "masked latents" else batch, 4, 2, 3)
    assert_raises(
        lambda: candidate.inpaint_input(latents, mask, around, True),
        "ValueError",
        what=f"2 rows of {which} for {batch} latents",
    )


# 9.5

CALL = ("latents", "t")
EULER, HEUN = "EulerDiscreteScheduler", "HeunDiscreteScheduler"
SPACED = {"timestep_spacing": "leading"}  # of others init_noise_sigma is the same before and after


@todo("9.5")
@pytest.mark.parametrize("name", ["DDIMScheduler", EULER, HEUN])
@pytest.mark.parametrize("masks", ["one", "each"])
def test_what_is_known_is_written_back_after_each_step(
    candidate: Any, draw: Draw, name: str, masks: str
) -> None:
    """Calls and result are those of StableDiffusionInpaintPipeline with a plain network."""
    batch, (height, width) = draw.integer(2, 3), draw.sample([3, 4, 5], 2)
    original, noise = (draw.latents(batch, live.CHANNELS, height, width) for _ in range(2))
    mask = (draw.tensor(1 if masks == "one" else batch, 1, height, width) > 0.5).float()
    mask[..., 0, 0], mask[..., 0, 1] = 0.0, 1.0
    embeds, steps = draw.latents(batch, 3, live.TEXT), draw.integer(3, 5)
    scheduler = schedulers.scheduler(name, **SPACED)
    lent = live.lent(schedulers.twin(scheduler))
    denoiser = recorded(lambda x, t: live.predict(x, t, embeds))
    answer = candidate.inpaint_loop(denoiser, lent, original, noise, mask, steps)
    library = functools.cache(
        lambda: live.repainted(noise, original, mask, scheduler, embeds, steps)
    )
    assert_calls(denoiser.calls, library=lambda: library().calls, names=CALL)
    assert_agrees(answer, library=lambda: library().latents, what="the final latents")


# 9.6


@todo("9.6", guards="what the pipeline itself makes of its three predictions")
def test_a_chain_is_instruct_pix2pix(candidate: Any, draw: Draw) -> None:
    """chain_guidance of nothing, picture, picture and text gives what the pipeline's step gets."""
    batch, (height, width) = draw.integer(2, 3), draw.sample([3, 4, 5], 2)
    latents, image = (draw.latents(batch, live.CHANNELS, height, width) for _ in range(2))
    text = draw.latents(batch, 3, live.TEXT)
    scales = draw.sample([1.3, 1.8, 4.5, 7.5], 2)
    run = functools.cache(lambda: live.instructed(latents, image, text, (scales[0], scales[1])))
    x, t, states = run().calls[0]
    words, picture, nothing = live.predict(x, t, states).chunk(3)
    predictions = [nothing, picture, words]
    assert_matches(
        candidate.chain_guidance(predictions, scales),
        library=lambda: run().steps[0][0],
        truth=lambda: chained(predictions, scales),
        what="the guided prediction",
    )


def chained(predictions: Sequence[Tensor], scales: Sequence[float]) -> Tensor:
    """The sum over the links, each in float64."""
    exact = [prediction.double() for prediction in predictions]
    links = [s * (exact[i + 1] - exact[i]) for i, s in enumerate(scales)]
    return sum(links, exact[0])


@todo("9.6", guards="chains of other lengths")
@pytest.mark.parametrize("links", [4, 1])
def test_a_chain_has_any_length(candidate: Any, draw: Draw, links: int) -> None:
    """p₀ + Σ sᵢ·(pᵢ − pᵢ₋₁), for one condition as for four."""
    predictions = [draw.latents(2, 3, 4, 5) for _ in range(links + 1)]
    scales = draw_weights(draw, links)

    def computed() -> Tensor:
        total = predictions[0]
        for before, after, scale in zip(predictions, predictions[1:], scales, strict=False):
            total = total + scale * (after - before)
        return total

    assert_matches_formula(
        candidate.chain_guidance(predictions, scales),
        computed=computed,
        truth=lambda: chained(predictions, scales),
        what=f"a chain of {links} scales",
    )


@todo("9.6", guards="that one condition is the guidance of everybody")
def test_a_sum_of_one_is_classifier_free_guidance(candidate: Any, draw: Draw) -> None:
    """sum_guidance with one condition gives what ClassifierFreeGuidance gives."""
    uncond, cond = draw.latents(2, 4, 3, 5), draw.latents(2, 4, 3, 5)
    weight = draw.uniform(1.5, 7.5)
    assert_matches(
        candidate.sum_guidance(uncond, [cond], [weight]),
        library=lambda: ClassifierFreeGuidance(guidance_scale=weight).forward(cond, uncond).pred,
        truth=lambda: uncond.double() + weight * (cond.double() - uncond.double()),
        what="the guided prediction",
    )


@todo("9.6")
def test_a_sum_guides_from_one_base(candidate: Any, draw: Draw) -> None:
    """u + Σ wᵢ·(cᵢ − u), each condition with a weight of its own, which may be negative."""
    uncond, conds = draw.latents(2, 4, 3, 5), [draw.latents(2, 4, 3, 5) for _ in range(3)]
    weights = draw_weights(draw, 3)

    def computed() -> Tensor:
        total = uncond
        for cond, weight in zip(conds, weights, strict=True):
            total = total + weight * (cond - uncond)
        return total

    def truth() -> Tensor:
        base = uncond.double()
        away = [w * (cond.double() - base) for cond, w in zip(conds, weights, strict=True)]
        return sum(away, base)

    assert_matches_formula(
        candidate.sum_guidance(uncond, conds, weights),
        computed=computed,
        truth=truth,
        what="the prediction guided by three conditions",
    )


@todo("9.6", guards="a scale for each condition")
@pytest.mark.parametrize("scales", [1, 3])
def test_every_condition_has_a_scale(candidate: Any, draw: Draw, scales: int) -> None:
    """Another number of scales than of conditions raises ValueError."""
    base, conds = draw.latents(2, 4, 3, 5), [draw.latents(2, 4, 3, 5) for _ in range(2)]
    drawn = draw_weights(draw, scales)
    assert_raises(
        lambda: candidate.chain_guidance([base, *conds], drawn),
        "ValueError",
        what=f"a chain of 3 predictions with {scales} scales",
    )
    assert_raises(
        lambda: candidate.sum_guidance(base, conds, drawn),
        "ValueError",
        what=f"a sum of 2 conditions with {scales} weights",
    )


# 9.7

# The windows in iterations. With Heun the run begins and ends without control; by Euler the window
# that lies across the others tells iterations that last from moments.
CASES = {
    "windows": (EULER, 6, [(0, 6), (2.2, 4.8), (2.5, 6)]),
    "closed at both ends": (HEUN, 4, [(1, 5), (0.5, 4.5), (2, 6)]),
}


def draw_controls(draw: Draw, n: int, windows: list[tuple[float, float]]) -> list[dict[str, float]]:
    """Controls with different weights, in these windows, in another order each time."""
    weights = draw_weights(draw, len(windows))
    controls = [
        {"weight": weight, "start": start / n, "end": end / n}
        for weight, (start, end) in zip(weights, windows, strict=True)
    ]
    return draw.sample(controls, len(controls))


def opened(controls: Sequence[dict[str, float]], n: int, i: int) -> list[int]:
    """Which controls are called in iteration i of n."""
    return [
        k
        for k, control in enumerate(controls)
        if i / n >= control["start"] and (i + 1) / n <= control["end"] and control["weight"]
    ]


@todo("9.7", again=False)
@pytest.mark.parametrize("case", [*CASES, "one without weight"])
def test_controls_have_their_say_in_their_windows(candidate: Any, draw: Draw, case: str) -> None:
    """Calls and latents are StableDiffusionControlNetPipeline's; who is closed is not called."""
    name, steps, windows = CASES.get(case, CASES["windows"])
    scheduler = schedulers.scheduler(name, **SPACED)
    n = 2 * steps - 1 if name == HEUN else steps
    controls = draw_controls(draw, n, windows)
    known = [dict(control) for control in controls]  # to the pipeline
    if case == "one without weight":
        silent, never = draw.sample(range(3), 2)
        for k in (silent, never):
            known[k]["weight"] = 0.0
        controls[silent]["weight"] = 0.0
        controls[never]["end"] = controls[never]["start"]  # which the pipeline refuses
    height, width = draw.sample([4, 8], 2)  # twice that is a multiple of 8, as the pipeline wants
    latents = draw.latents(2, live.CHANNELS, height, width)
    pictures = [draw.tensor(2, 3, 2 * height, 2 * width) for _ in controls]
    embeds = draw.latents(4, 3, live.TEXT)
    scale = draw.uniform(2.5, 4.5)
    lent = live.lent(schedulers.twin(scheduler))
    unet, control = live.lent_unet(), live.lent_controls(pictures)
    answer = candidate.controlled_loop(unet, control, lent, latents, embeds, controls, scale, steps)
    library = functools.cache(
        lambda: live.controlled(
            latents, (embeds[:2], embeds[2:]), pictures, known, scheduler, scale, steps
        )
    )
    assert_calls(unet.calls[:1], library=lambda: library().calls[:1], names=CALL, of="the unet")
    assert_equals(len(unet.calls), library=lambda: len(library().calls), what="calls of the unet")
    times = [comparable(call[1]) for call in unet.calls]
    assert_equals(
        sorted((call[0], comparable(call[2])) for call in control.calls if len(call) == 4),
        value=sorted((k, times[i]) for i in range(n) for k in opened(controls, n, i)),
        what="which control was called at which timestep",
    )
    assert_equals(
        [call[3] is None and call[4] is None for call in unet.calls],
        value=[not opened(controls, n, i) for i in range(n)],
        what="whether the unet was called without residuals, call by call",
    )
    assert_calls(unet.calls, library=lambda: library().calls, names=CALL, of="the unet")
    assert_agrees(answer, library=lambda: library().latents, what="the final latents")


@todo("9.7", guards="windows that are none")
@pytest.mark.parametrize(("start", "end"), [(0.6, 0.4), (-0.1, 0.5), (0.5, 1.1)])
def test_windows_that_are_none_are_errors(
    candidate: Any, draw: Draw, start: float, end: float
) -> None:
    """A start behind the end, or one of them outside 0 to 1, raises ValueError, before any call."""
    latents, embeds = draw.latents(1, live.CHANNELS, 2, 3), draw.latents(2, 3, live.TEXT)
    fine = {"weight": 1.0, "start": 0.0, "end": 1.0}
    window = {"weight": draw.uniform(0.5, 0.9), "start": start, "end": end}
    unet = recorded(lambda x, *_: x, "unet")
    control = recorded(lambda k, x, *_: ([x], x), "control")
    scheduler = live.lent(schedulers.scheduler("DDIMScheduler"))
    assert_raises(
        lambda: candidate.controlled_loop(
            unet, control, scheduler, latents, embeds, [fine, window], 3.0, 3
        ),
        "ValueError",
        what=f"a window from {start} to {end}",
    )
