"""Lab 03 of diffsynth: the learner's shapes against what diffusers does with a video's axes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from diffusers.image_processor import VaeImageProcessor
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.transformers.transformer_flux import FluxPosEmbed
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_matches,
    assert_property,
    assert_raises,
    assert_tensor,
    library_function,
    todo,
    unpack,
)
from infralens.suites.diffsynth.lab_03_latent_shape_tracking import live

# 3.1


@todo("3.1")
@pytest.mark.parametrize(("kind", "ratio"), [("wan", 4), ("ltx", 4), ("ltx", 8), ("ltx", 2)])
def test_frames_through_a_vae_and_back(candidate: Any, draw: Draw, kind: str, ratio: int) -> None:
    """A video VAE encodes to as many latent frames as latent_frames says, and decodes them back."""
    vae = live.video_vae(kind, ratio)
    whole = ratio * draw.integer(2, 3)
    for frames in (whole, ratio + draw.integer(1, ratio - 1)):
        assert_equals(
            candidate.latent_frames(frames, ratio),
            library=lambda frames=frames: live.encoded(vae, frames),  # type: ignore[misc]
            what=f"the latent frames of {frames} frames at ratio {ratio}",
        )
    for latent in draw.sample(range(1, 5), 2):
        assert_equals(
            candidate.pixel_frames(latent, ratio),
            library=lambda latent=latent: live.decoded(vae, latent),  # type: ignore[misc]
            what=f"the frames of {latent} latent frames at ratio {ratio}",
        )


@todo("3.1")
@pytest.mark.parametrize("ratio", [4, 8, 2])
def test_frames_that_a_pipeline_takes(candidate: Any, draw: Draw, ratio: int) -> None:
    """WanPipeline makes the latent frames of valid_frames, for any number of frames."""
    steps = draw.sample(range(1, 4), 2)
    fits, whole = steps[0] * ratio + 1, steps[1] * ratio
    more = whole - 1 if ratio == 2 else whole - draw.integer(1, ratio // 2 - 1)
    for frames in (fits, fits + 1, more, whole, draw.integer(1, ratio)):
        assert_equals(
            candidate.valid_frames(frames, ratio),
            library=lambda frames=frames: (  # type: ignore[misc]
                ratio * (live.made_frames(frames, ratio) - 1) + 1
            ),
            what=f"the frames instead of {frames} at ratio {ratio}",
        )


@todo("3.1", guards="numbers that cannot be")
def test_frames_below_one_are_an_error(candidate: Any, draw: Draw) -> None:
    """No frames, or a ratio below 1, raise ValueError in all three functions."""
    for name in ("latent_frames", "pixel_frames", "valid_frames"):
        for frames, ratio in ((-draw.integer(0, 3), 4), (draw.integer(1, 9), -draw.integer(0, 2))):
            assert_raises(
                lambda name=name, frames=frames, ratio=ratio: (  # type: ignore[misc]
                    getattr(candidate, name)(frames, ratio)
                ),
                "ValueError",
                what=f"{name} of {frames} at ratio {ratio}",
            )


# 3.2

LAYOUTS = ("bcfhw", "bfchw", "(bf)chw")


def draw_video(draw: Draw, layout: str, batch: int, channels: int, frames: int) -> Tensor:
    """Latents in a layout."""
    height, width = draw.sample(range(2, 6), 2)
    axes = {
        "bcfhw": (batch, channels, frames),
        "bfchw": (batch, frames, channels),
        "(bf)chw": (batch * frames, channels),
    }[layout]
    return draw.latents(*axes, height, width)


@todo("3.2")
@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", LAYOUTS)
def test_layouts_are_those_of_the_pipelines(
    candidate: Any, draw: Draw, source: str, target: str
) -> None:
    """Any layout becomes any other as AnimateDiff's and CogVideoX's pipelines do it, to the bit."""
    batch, frames = draw.sample(range(2, 5), 2)
    channels = draw.choice([n for n in range(2, 6) if n not in (batch, frames)])
    for depth in (channels, frames):  # as many channels as frames keep their shape unpermuted
        video = draw_video(draw, source, batch, depth, frames)
        assert_equals(
            candidate.relayout(video, source, target, batch),
            library=lambda video=video: live.relaid(video, source, target, batch),  # type: ignore[misc]
            what=f"{source} as {target}, {depth} channels and {frames} frames",
        )


@todo("3.2", guards="one video, whose batch may get lost")
def test_a_single_video_stays_a_batch(candidate: Any, draw: Draw) -> None:
    """One video, or a video of one frame, keeps all its axes."""
    channels, frames = draw.sample(range(2, 6), 2)
    for batch, count in ((1, frames), (frames, 1)):
        for source, target in (("(bf)chw", "bcfhw"), ("bcfhw", "bfchw"), ("bfchw", "(bf)chw")):
            video = draw_video(draw, source, batch, channels, count)
            assert_equals(
                candidate.relayout(video, source, target, batch),
                library=lambda video=video, source=source, target=target, batch=batch: (  # type: ignore[misc]
                    live.relaid(video, source, target, batch)
                ),
                what=f"{source} as {target}, {batch} video(s) of {count} frame(s)",
            )


@todo("3.2", guards="what does not fit")
def test_layouts_and_batches_that_do_not_fit_are_errors(candidate: Any, draw: Draw) -> None:
    """An unknown layout on either side, or frames that are not those of so many videos, raise."""
    frames = draw.choice([5, 7])
    video, flat = draw.latents(2, 3, 3, 2, 4), draw.latents(frames, 3, 2, 4)
    unknown = draw.choice(["cbfhw", "bchw", "bfhwc"])
    calls = [
        (video, unknown, "bcfhw", 2),
        (video, "bcfhw", unknown, 2),
        (flat, "(bf)chw", "bcfhw", draw.integer(2, frames - 1)),
        (flat, "(bf)chw", "(bf)chw", draw.integer(2, frames - 1)),
    ]
    for call in calls:
        assert_raises(
            lambda call=call: candidate.relayout(*call),  # type: ignore[misc]
            "ValueError",
            what=f"{call[1]} as {call[2]} of {call[3]} videos",
        )


# 3.3


def draw_grid(draw: Draw, patch: tuple[int, int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A grid of different sides, and the latents' sides with it."""
    grid = tuple(draw.sample(range(2, 5), 3))
    return grid, tuple(n * p for n, p in zip(grid, patch, strict=True))


@todo("3.3", guards="square patches, as a pipeline packs them")
@pytest.mark.parametrize("time", [1, 2])
def test_patches_are_packed_as_ltx_packs_them(candidate: Any, draw: Draw, time: int) -> None:
    """LTXPipeline's tokens and latents, channels first, to the bit."""
    side = draw.integer(2, 3)
    patch = (time, side, side)
    grid, sides = draw_grid(draw, patch)
    channels = draw.choice([n for n in range(2, 6) if n not in (time, side)])
    latents = draw.latents(2, channels, *sides)
    assert_equals(
        candidate.patchify(latents, patch, False),
        library=lambda: live.ltx_packed(latents, patch),
        what="the tokens, channels first",
    )
    tokens = draw.latents(2, math.prod(grid), channels * math.prod(patch))
    assert_equals(
        candidate.unpatchify(tokens, patch, grid, False),
        library=lambda: live.ltx_unpacked(tokens, patch, grid),
        what="the latents, channels first",
    )


@todo("3.3", guards="patches of three different sides, channels first")
@pytest.mark.parametrize("patch", [(1, 2, 3), (2, 3, 1)])
def test_patches_are_what_wans_first_layer_sees(
    candidate: Any, draw: Draw, patch: tuple[int, int, int]
) -> None:
    """Channels first, the numbers of a token are in the order of Wan's patch embedding."""
    grid, sides = draw_grid(draw, patch)
    latents = draw.latents(2, 3, *sides)
    assert_equals(
        candidate.patchify(latents, patch, False),
        library=lambda: live.wan_patches(latents, patch),
        what=f"the tokens of patches {patch}, channels first",
    )
    tokens = live.wan_patches(latents, patch)
    assert_equals(
        candidate.unpatchify(tokens, patch, grid, False),
        value=latents,
        what=f"the latents of patches {patch}, channels first",
    )


@todo("3.3", again=False)
@pytest.mark.parametrize("patch", [(1, 2, 3), (2, 1, 2)])
def test_patches_are_put_together_as_wan_does(
    candidate: Any, draw: Draw, patch: tuple[int, int, int]
) -> None:
    """Channels last, unpatchify makes Wan's output of what its last layer says of each token."""
    grid, sides = draw_grid(draw, patch)
    tokens, sample = live.wan_output(draw.latents(2, 3, *sides), patch)
    assert_equals(
        candidate.unpatchify(tokens, patch, grid, True),
        library=lambda: sample,
        what=f"the latents of patches {patch}, channels last",
    )
    assert_equals(
        candidate.patchify(sample, patch, True),
        library=lambda: tokens,
        what=f"the tokens of patches {patch}, channels last",
    )


@todo("3.3", guards="what does not divide")
@pytest.mark.parametrize("axis", ["frames", "rows", "columns", "tokens", "features"])
def test_what_patches_do_not_divide_is_an_error(candidate: Any, draw: Draw, axis: str) -> None:
    """Sides, tokens or features that the patches do not divide raise ValueError."""
    patch, grid = (2, 2, 3), tuple(draw.sample(range(2, 5), 3))
    sides = [n * p for n, p in zip(grid, patch, strict=True)]
    n, features = math.prod(grid), 12 * draw.integer(2, 4)
    if axis in ("frames", "rows", "columns"):
        sides[["frames", "rows", "columns"].index(axis)] += 1
        video = draw.latents(2, 3, *sides)
        assert_raises(
            lambda: candidate.patchify(video, patch, draw.choice([True, False])),
            "ValueError",
            what=f"{axis} that the patch does not divide",
        )
        return
    shape = (2, 2 * n, features) if axis == "tokens" else (2, n, features + 4)
    tokens = draw.latents(*shape)
    assert_raises(
        lambda: candidate.unpatchify(tokens, patch, grid, draw.choice([True, False])),
        "ValueError",
        what=f"{axis} that do not fit the patches",
    )


# 3.4


def assert_tables(answer: Any, reference: Any, ids: Tensor, axes: Any, theta: float) -> None:
    """cos and sin are the library's, within what rounding explains."""
    for k, (part, name) in enumerate(
        zip(unpack(answer, "cos", "sin"), ("cos", "sin"), strict=True)
    ):
        assert_matches(
            part,
            library=lambda k=k: reference()[k],  # type: ignore[misc]
            truth=lambda k=k: formula(ids, axes, theta)[k],  # type: ignore[misc]
            what=name,
        )


def formula(ids: Tensor, axes: Any, theta: float) -> tuple[Tensor, Tensor]:
    """The tables in float64, feature by feature."""
    columns = []
    for axis, width in enumerate(axes):
        for j in range(width // 2):
            angle = ids[:, axis].double() * theta ** (-2 * j / width)
            columns += [angle, angle]
    angles = torch.stack(columns, dim=1)
    return angles.cos(), angles.sin()


def draw_sides(draw: Draw) -> tuple[int, int, int]:
    """Frames, height and width, all different; some odd."""
    frames, height, width = draw.sample(range(2, 7), 3)
    return frames, height, width


@todo("3.4")
@pytest.mark.parametrize("centred", [False, True])
def test_ids_are_the_positions_of_wan_and_qwen(candidate: Any, draw: Draw, centred: bool) -> None:
    """Frame slowest and column fastest; with centred, rows and columns are about 0 as Qwen's."""
    frames, height, width = draw_sides(draw)
    for sides in ((frames, height, width), (1, height + 1, width + 1)):  # odd ones in any case
        assert_equals(
            candidate.grid_ids(*sides, centred),
            library=partial(live.positions, *sides, centred),
            what=f"the ids of {sides[0]} × {sides[1]} × {sides[2]}",
        )


@todo("3.4")
@pytest.mark.parametrize("family", ["Flux", "Wan", "Qwen"])
def test_tables_are_those_of_the_family(candidate: Any, draw: Draw, family: str) -> None:
    """The angles of FluxPosEmbed, WanRotaryPosEmbed and QwenEmbedRope, twice side by side."""
    sides, theta = draw_sides(draw), draw.choice([100.0, 1000.0, 10000.0])
    head = draw.choice([20, 28, 32])
    third = 2 * (head // 6)
    axes = {"Flux": (4, 10, 6), "Wan": (head - 2 * third, third, third), "Qwen": (4, 8, 12)}[family]
    ids = live.positions(*sides, family == "Qwen")
    if family == "Flux":
        ids = ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(1))] + 3
    answer = candidate.rotary(ids, axes, theta)
    reference = {
        "Flux": lambda: FluxPosEmbed(theta, list(axes))(ids),
        "Wan": lambda: live.wan_tables(*sides, head, theta),
        "Qwen": lambda: live.qwen_tables(*sides, axes, theta),
    }[family]
    assert_tables(answer, reference, ids, axes, theta)


def turned(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    """The pairs turned in float64, one by one."""
    half = x.shape[-1] // 2
    out = x.double().clone()
    for j in range(half):
        a, b = (2 * j, 2 * j + 1) if pairing == "adjacent" else (j, j + half)
        out[..., a] = x[..., a].double() * cos[:, a] - x[..., b].double() * sin[:, a]
        out[..., b] = x[..., b].double() * cos[:, b] + x[..., a].double() * sin[:, b]
    return out


def draw_tables(draw: Draw, tokens: int, half: int, pairing: str) -> tuple[Tensor, Tensor]:
    """cos and sin of random angles, in the layout of the pairing."""
    angles = draw.tensor(tokens, half, low=-3.0, high=3.0)
    both = angles.repeat_interleave(2, 1) if pairing == "adjacent" else angles.repeat(1, 2)
    return both.cos(), both.sin()


@todo("3.4")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("pairing", "dim"), [("adjacent", -1), ("halves", -2)])
def test_pairs_are_turned_as_the_library_turns_them(
    candidate: Any, draw: Draw, pairing: str, dim: int, dtype: torch.dtype
) -> None:
    """apply_rotary is apply_rotary_emb in both pairings, in x's dtype."""
    half, tokens = draw.integer(2, 4) * 2, draw.integer(3, 7)
    x = draw.latents(2, 3, tokens, 2 * half, dtype=dtype)
    cos, sin = draw_tables(draw, tokens, half, pairing)
    assert_matches(
        candidate.apply_rotary(x, cos, sin, pairing),
        library=lambda: apply_rotary_emb(x, (cos, sin), use_real_unbind_dim=dim),
        truth=lambda: turned(x, cos.double(), sin.double(), pairing),
        what=f"x, turned in pairs that are {pairing}",
    )


def score(candidate: Any, ids: Tensor, axes: Any, theta: float, query: Tensor, key: Tensor) -> Any:
    """The products of the learner's turned queries and keys."""
    cos, sin = unpack(candidate.rotary(ids, axes, theta), "cos", "sin")
    shape = (len(ids), query.shape[-1])
    assert_tensor(cos, shape=shape, dtype=torch.float32, what="cos")
    assert_tensor(sin, shape=shape, dtype=torch.float32, what="sin")
    left = candidate.apply_rotary(query, cos, sin, "adjacent")
    assert_tensor(left, like=query, what="the turned queries")
    right = candidate.apply_rotary(key, cos, sin, "adjacent")
    assert_tensor(right, like=key, what="the turned keys")
    return left @ right.mT


@todo("3.4", guards="tables and turns that are used together")
def test_scores_depend_on_the_distance_only(candidate: Any, draw: Draw) -> None:
    """Moving all positions by the same changes no product of a query and a key."""
    axes, theta = (4, 6, 6), draw.choice([100.0, 1000.0])
    ids = live.positions(*draw_sides(draw), False)
    moved = ids + torch.tensor([[draw.integer(1, 9), draw.integer(1, 9), draw.integer(1, 9)]])
    query, key = draw.latents(2, 2, len(ids), 16), draw.latents(2, 2, len(ids), 16)
    scores = [score(candidate, where, axes, theta, query, key) for where in (ids, moved)]
    assert_property(scores[1], equals=lambda: scores[0], what="the scores at moved positions")


@todo("3.4", guards="a misspelt pairing")
def test_another_pairing_is_an_error(candidate: Any, draw: Draw) -> None:
    """A pairing that is neither adjacent nor halves raises ValueError."""
    x = draw.latents(2, 2, 3, 4)
    cos, sin = draw_tables(draw, 3, 2, "adjacent")
    pairing = draw.choice(["interleaved", "half", "thirds"])
    assert_raises(
        lambda: candidate.apply_rotary(x, cos, sin, pairing),
        "ValueError",
        what=f"the pairing {pairing}",
    )


# 3.5


def draw_area(draw: Draw, multiple: int) -> tuple[float, float]:
    """An area and a ratio whose exact sides lie near no half of the multiple."""
    while True:
        area = float(draw.integer(600, 1400)) ** 2
        ratio = draw.integer(9, 40) / draw.integer(9, 40)
        width = math.sqrt(area * ratio)
        if all(
            abs(side / multiple % 1 - 0.5) > 1e-4 and abs(width / height - 1) > 0.1
            for height in (width / ratio,)
            for side in (width, height)
        ):
            return area, ratio


@todo("3.5")
def test_sides_are_cut_to_multiples(candidate: Any, draw: Draw) -> None:
    """snap gives the sides that VaeImageProcessor takes of an image."""
    # One side just under a multiple and one just over, each once: up, down and nearest all differ.
    for multiple, is_under in zip(draw.sample([8, 12, 16, 32], 2), (True, False), strict=True):
        half = multiple // 2
        over, under = draw.integer(1, half - 1), draw.integer(half + 1, multiple - 1)
        height = multiple * draw.integer(2, 5) + (under if is_under else over)
        width = multiple * draw.integer(6, 9) + (over if is_under else under)
        image = torch.empty(1, 3, height, width, device=live.META)
        processor = VaeImageProcessor(vae_scale_factor=multiple)
        assert_equals(
            candidate.snap(height, width, multiple),
            library=lambda processor=processor, image=image: (  # type: ignore[misc]
                processor.get_default_height_width(image)
            ),
            what=f"{height} × {width} cut to multiples of {multiple}",
        )


@todo("3.5")
def test_sides_of_an_area_are_those_of_qwen(candidate: Any, draw: Draw) -> None:
    """fit_area gives QwenImageEdit's sides, height first, for many areas and ratios."""
    sides = library_function(
        "pipelines/qwenimage/pipeline_qwenimage_edit.py", "calculate_dimensions"
    )
    cases = [draw_area(draw, 32) for _ in range(40)]
    cases.append((float(32 * draw.choice([22, 24, 26]) + 16) ** 2, 1.0))  # halves, to the even
    answers = [candidate.fit_area(area, ratio, 32) for area, ratio in cases]
    for answer, (area, ratio) in zip(answers, cases, strict=True):
        assert_equals(
            answer,
            library=lambda area=area, ratio=ratio: sides(area, ratio)[1::-1],  # type: ignore[misc]
            what=f"the sides of {area:.0f} pixels at {ratio:.3f}",
        )


@todo("3.5", guards="other multiples than Qwen's")
def test_sides_of_an_area_in_other_multiples(candidate: Any, draw: Draw) -> None:
    """Each side is the multiple nearest to the exact one, for multiples of 8 and 48."""
    for multiple in (8, 48):
        area, ratio = draw_area(draw, multiple)
        width = math.sqrt(area * ratio)
        nearest = tuple(round(side / multiple) * multiple for side in (width / ratio, width))
        assert_equals(
            candidate.fit_area(area, ratio, multiple),
            value=nearest,
            what=f"the sides of {area:.0f} pixels at {ratio:.3f} in multiples of {multiple}",
        )


@todo("3.5", guards="numbers that cannot be")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_sides_that_are_not_positive_are_an_error(candidate: Any, draw: Draw, place: int) -> None:
    """A side, area, ratio or multiple of 0 or below raises ValueError."""
    for name, right in (("snap", [640, 384, 16]), ("fit_area", [640 * 384, 1.5, 16])):
        for wrong in (0, -draw.integer(1, 9)):
            call = [*right[:place], wrong, *right[place + 1 :]]
            assert_raises(
                lambda name=name, call=call: getattr(candidate, name)(*call),  # type: ignore[misc]
                "ValueError",
                what=f"{name} of {call}",
            )


# 3.6


@todo("3.6")
@pytest.mark.parametrize("size", [8, 2])
def test_the_rest_goes_first_in_cogvideox(candidate: Any, draw: Draw, size: int) -> None:
    """With "first" the batches are those that AutoencoderKLCogVideoX encodes and decodes."""
    counts = [draw.integer(1, 3) * size + draw.integer(1, size - 1), draw.integer(2, 3) * size]
    for frames in (*counts, draw.integer(1, size - 1)):
        assert_equals(
            candidate.frame_batches(frames, size, "first"),
            library=lambda frames=frames: live.cogvideox_batches(frames, size),  # type: ignore[misc]
            what=f"the batches of {frames} frames by {size}, the rest first",
        )


@todo("3.6")
def test_the_first_frame_is_alone_in_wan(candidate: Any, draw: Draw) -> None:
    """With "causal" the batches are those that AutoencoderKLWan encodes; a rest is a batch."""
    for steps in draw.sample(range(4), 2):
        frames = 4 * steps + 1
        assert_equals(
            candidate.frame_batches(frames, 4, "causal"),
            library=lambda frames=frames: live.wan_batches(frames),  # type: ignore[misc]
            what=f"the batches of {frames} frames by 4, causal",
        )
    size, steps = draw.integer(3, 6), draw.integer(2, 4)
    frames = 1 + size * steps + draw.integer(1, size - 1)
    lengths = [1] + [size] * steps + [frames - 1 - size * steps]
    assert_equals(
        candidate.frame_batches(frames, size, "causal"),
        value=live.pairs(lengths),
        what=f"the batches of {frames} frames by {size}, causal",
    )


@todo("3.6", guards="the way without a rule for the first batch")
def test_the_rest_goes_last_in_animatediff(candidate: Any, draw: Draw) -> None:
    """With "last" the batches are those that AnimateDiffPipeline decodes."""
    size = draw.integer(3, 6)
    rest = draw.integer(1, size - 1)
    for frames in (size * draw.integer(2, 4) + rest, size * draw.integer(2, 4), rest):
        assert_equals(
            candidate.frame_batches(frames, size, "last"),
            library=lambda frames=frames: live.animatediff_batches(frames, size),  # type: ignore[misc]
            what=f"the batches of {frames} frames by {size}, the rest last",
        )


@todo("3.6", guards="numbers that cannot be")
def test_batches_that_cannot_be_are_an_error(candidate: Any, draw: Draw) -> None:
    """An unknown rest, or frames or a size below 1, raise ValueError."""
    rest = draw.choice(["first", "causal", "last"])
    calls = [
        (draw.integer(2, 9), -draw.integer(0, 2), rest),
        (-draw.integer(0, 2), 4, rest),
        (draw.integer(5, 9), 4, draw.choice(["middle", "none"])),
    ]
    for call in calls:
        assert_raises(
            lambda call=call: candidate.frame_batches(*call),  # type: ignore[misc]
            "ValueError",
            what=f"the batches of {call}",
        )


# 3.7


@todo("3.7")
@pytest.mark.parametrize("layers", [1, 3])
def test_operations_are_those_that_torch_counts(candidate: Any, draw: Draw, layers: int) -> None:
    """Self-attention, cross-attention and MLP cost what torch counts in a live Wan."""
    config = live.wan_config(
        num_layers=layers,
        num_attention_heads=draw.integer(2, 4),
        attention_head_dim=draw.choice([12, 18, 20]),
        ffn_dim=8 * draw.integer(3, 9),
        patch_size=(1, 2, 2),
    )
    batch, text, grid = draw.integer(2, 3), draw.integer(4, 9), draw_sides(draw)
    answer = candidate.transformer_flops(config, batch, math.prod(grid), text)
    assert_equals(
        answer,
        library=lambda: live.counted(config, batch, grid, text),
        what=f"the operations of {layers} block(s), {batch} videos",
    )
