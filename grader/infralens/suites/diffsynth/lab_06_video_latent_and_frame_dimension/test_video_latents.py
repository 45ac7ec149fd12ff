"""Lab 06 of diffsynth: the learner's frames against what diffusers does along time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from diffusers.models.embeddings import apply_rotary_emb
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
    recorded,
    remote,
    todo,
    unpack,
)
from infralens.suites.diffsynth.lab_06_video_latent_and_frame_dimension import live
from infralens.suites.schedulers import LentScheduler

# 6.1

CONFIGS = [
    {"channels": 4, "temporal": 4, "spatial": 8, "patch": 2},
    {"channels": 6, "temporal": 8, "spatial": 4, "patch": 1},
    {"channels": 5, "temporal": 2, "spatial": 8, "patch": 3},
]


def draw_size(draw: Draw, config: dict[str, int]) -> tuple[int, int]:
    """Two different sides; WanPipeline takes multiples of 16 only."""
    multiple = math.lcm(16, config["spatial"] * config["patch"])
    height, width = draw.sample(range(1, 4), 2)
    return height * multiple, width * multiple


@todo("6.1")
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"ratio {config['temporal']}")
def test_sizes_are_those_of_a_run(candidate: Any, draw: Draw, config: dict[str, int]) -> None:
    """Latents and tokens are those that WanPipeline makes, frames those that a VAE decodes."""
    ratio = config["temporal"]
    height, width = draw_size(draw, config)
    counts = [draw.integer(1, 2) * ratio + 1, draw.integer(1, 2) * ratio]
    if ratio > 2:
        counts.append(draw.integer(1, 2) * ratio + draw.integer(2, ratio - 1))
    for frames in counts:
        batch = draw.integer(2, 3)

        def made(batch: int = batch, frames: int = frames) -> dict[str, Any]:
            sizes = live.made(config, batch, frames, height, width)
            return {**sizes, "frames": live.decoded(ratio, sizes["latents"][2])}

        assert_equals(
            candidate.video_shape(config, batch, frames, height, width),
            library=made,
            what=f"the sizes of {batch} videos, {frames} × {height} × {width}, at ratio {ratio}",
        )


@todo("6.1", guards="requests that cannot be")
@pytest.mark.parametrize("what", ["frames", "height", "width"])
def test_what_does_not_divide_is_an_error(candidate: Any, draw: Draw, what: str) -> None:
    """No frames, or a side that the VAE divides and the patches do not, raise ValueError."""
    config = CONFIGS[0]
    height, width = draw_size(draw, config)
    frames = -draw.integer(0, 3) if what == "frames" else 9
    short = config["spatial"]
    assert_raises(
        lambda: candidate.video_shape(
            config,
            2,
            frames,
            height - short * (what == "height"),
            width - short * (what == "width"),
        ),
        "ValueError",
        what=f"{frames} frames" if what == "frames" else f"a {what} of no whole patches",
    )


# 6.2

DTYPES = [torch.float32, torch.float16, torch.int64]


def draw_sides(draw: Draw, alike: bool) -> tuple[int, ...]:
    """B, C, F, H, W: all different, or as many as may be alike."""
    if alike:  # a forgotten permute keeps its shape
        n, width = draw.sample(range(2, 5), 2)
        return n, n, n, n, width
    return tuple(draw.sample(range(2, 7), 5))


def draw_video(draw: Draw, sides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A video of numbers that are mostly different."""
    return draw.tensor(*sides, low=-900.0, high=900.0).to(dtype)


def rows_of(video: Tensor) -> Tensor:
    """A row of (F, C) for each pixel, one by one."""
    batch, _, _, height, width = video.shape
    return torch.stack(
        [video[b, :, :, y, x].T for b in range(batch) for y in range(height) for x in range(width)]
    )


@todo("6.2")
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_folds_are_those_of_animatediff(
    candidate: Any, draw: Draw, dtype: torch.dtype, alike: bool
) -> None:
    """Both folds are what AnimateDiff's temporal layer takes, makes of it and gives back."""
    sides = draw_sides(draw, alike)
    batch, _, frames, height, width = sides
    video = draw_video(draw, sides, dtype)
    rows = rows_of(video)
    flat = live.rows_in_batch(rows, batch, height, width)
    assert_equals(
        candidate.to_spatial(video),
        library=lambda: live.rows_in_batch(rows, batch, height, width),
        what="the frames in the batch",
    )
    assert_equals(
        candidate.from_spatial(flat, batch),
        library=lambda: live.video_of(flat, batch),
        what="the video of frames in the batch",
    )
    assert_equals(
        candidate.to_temporal(video),
        library=lambda: live.temporal_rows(flat, frames),
        what="the pixels in the batch",
    )
    assert_equals(
        candidate.from_temporal(rows, batch, height, width),
        library=lambda: live.video_of(live.rows_in_batch(rows, batch, height, width), batch),
        what="the video of pixels in the batch",
    )


@todo("6.2", guards="a first axis of something else")
def test_folds_that_do_not_fit_are_errors(candidate: Any, draw: Draw) -> None:
    """Frames or pixels that are not those of so many videos raise ValueError."""
    batch, height, width = draw.sample(range(2, 5), 3)
    odd = draw_video(draw, (batch * 3 + 1, 2, height, width), torch.float32)
    more = draw_video(draw, (batch * height * width + draw.integer(1, 3), 3, 2), torch.float32)
    assert_raises(
        lambda: candidate.from_spatial(odd, batch),
        "ValueError",
        what=f"{len(odd)} frames of {batch} videos",
    )
    for rows in (more, torch.cat([more[: batch * height * width]] * 2)):
        assert_raises(
            lambda rows=rows: candidate.from_temporal(rows, batch, height, width),  # type: ignore[misc]
            "ValueError",
            what=f"{len(rows)} pixels of {batch} × {height} × {width}",
        )


# 6.3


@todo("6.3")
@pytest.mark.parametrize(
    ("kind", "block"),
    [("full", 1), ("spatial", 4), ("temporal", 4), ("causal", 1), ("causal", 2), ("causal", 3)],
)
def test_masks_are_who_looks_at_whom_in_the_library(
    candidate: Any, draw: Draw, kind: str, block: int
) -> None:
    """A token may look at those that change it when they are moved, in a layer of this kind."""
    frames = 6 if kind == "causal" else draw.choice([5, 6])
    height, width = draw.sample(range(1, 4), 2)
    assert_equals(
        candidate.attention_mask(kind, frames, height, width, block),
        library=lambda: live.looked_at(kind, frames, height, width, block),
        what=f"the mask {kind} of {frames} × {height} × {width} tokens, blocks of {block}",
    )


@todo("6.3", guards="as many frames as rows and columns")
@pytest.mark.parametrize("kind", ["spatial", "temporal", "causal"])
def test_masks_of_a_cube(candidate: Any, draw: Draw, kind: str) -> None:
    """The same where frames, rows and columns are as many."""
    side = draw.integer(2, 3)
    assert_equals(
        candidate.attention_mask(kind, side, side, side, 1),
        library=lambda: live.looked_at(kind, side, side, side, 1),
        what=f"the mask {kind} of {side} × {side} × {side} tokens",
    )


@todo("6.3", guards="words and blocks that cannot be")
def test_masks_that_cannot_be_are_errors(candidate: Any, draw: Draw) -> None:
    """An unknown kind, or blocks that do not divide the frames, raise ValueError."""
    unknown = draw.choice(["window", "space", "causal-block", ""])
    for call in ((unknown, 4, 2, 3, 1), ("causal", draw.choice([5, 7]), 2, 3, draw.integer(2, 4))):
        assert_raises(
            lambda call=call: candidate.attention_mask(*call),  # type: ignore[misc]
            "ValueError",
            what=f"the mask of {call}",
        )


# 6.4


def draw_clip(draw: Draw) -> tuple[int, int, int]:
    """Frames, height and width, all different."""
    frames, height, width = draw.sample(range(2, 6), 3)
    return frames, height, width


def tables(sides: tuple[int, int, int], head: int, theta: float, start: int) -> Any:
    """cos and sin in float64, feature by feature."""
    frames, height, width = sides
    ids = [(start + f, y, x) for f in range(frames) for y in range(height) for x in range(width)]
    side = 2 * (head // 6)
    columns = [
        [position[axis] * theta ** (-2 * i / size) for position in ids]
        for axis, size in enumerate((head - 2 * side, side, side))
        for i in range(size // 2)
        for _ in range(2)
    ]
    angles = torch.tensor(columns, dtype=torch.float64).T
    return angles.cos(), angles.sin()


@todo("6.4")
@pytest.mark.parametrize("head", [14, 16, 20, 24])
@pytest.mark.parametrize("moved", [False, True])
def test_tables_are_those_of_wan(candidate: Any, draw: Draw, head: int, moved: bool) -> None:
    """The tables of WanRotaryPosEmbed, from its first frame on and from a later one."""
    sides, theta = draw_clip(draw), draw.choice([100.0, 1000.0, 10000.0])
    start = draw.integer(1, 6) if moved else 0
    answer = candidate.rope_3d(*sides, head, theta, start)
    for k, (part, name) in enumerate(
        zip(unpack(answer, "cos", "sin"), ("cos", "sin"), strict=True)
    ):
        assert_matches(
            part,
            library=lambda k=k: live.wan_tables(*sides, head, theta, start)[k],  # type: ignore[misc]
            truth=lambda k=k: tables(sides, head, theta, start)[k],  # type: ignore[misc]
            what=f"{name} of a head of {head}, from frame {start}",
        )


@todo("6.4", guards="a window of a long clip, used with its neighbours")
def test_scores_do_not_know_where_a_window_starts(candidate: Any, draw: Draw) -> None:
    """Products of queries and keys are the same wherever the window starts."""
    sides, head, theta = draw_clip(draw), draw.choice([14, 20]), draw.choice([100.0, 1000.0])
    n = math.prod(sides)
    query, key = draw.latents(1, 2, n, head), draw.latents(1, 2, n, head)
    scores = []
    for start in (0, draw.integer(2, 6)):
        cos, sin = unpack(candidate.rope_3d(*sides, head, theta, start), "cos", "sin")
        assert_tensor(cos, shape=(n, head), dtype=torch.float32, what="cos")
        assert_tensor(sin, shape=(n, head), dtype=torch.float32, what="sin")
        turned = [apply_rotary_emb(x, (cos, sin)) for x in (query, key)]
        scores.append(turned[0] @ turned[1].mT)
    assert_property(scores[1], equals=lambda: scores[0], what="the scores of a later window")


@todo("6.4", guards="heads that cannot be split")
def test_heads_that_cannot_be_split_are_errors(candidate: Any, draw: Draw) -> None:
    """An odd head, or one with fewer than six features, raises ValueError."""
    for head in (draw.choice([7, 9, 13, 15]), draw.choice([2, 4])):
        assert_raises(
            lambda head=head: candidate.rope_3d(2, 2, 3, head, 100.0, 0),  # type: ignore[misc]
            "ValueError",
            what=f"a head of {head} features",
        )


# 6.5


def picture(draw: Draw, batch: int, height: int, width: int) -> Tensor:
    return draw.tensor(batch, 3, height, width, low=-1.0, high=1.0)


def clip_of(first: Tensor, last: Tensor | None, frames: int) -> Tensor:
    """The pictures in their places, zeros elsewhere."""
    nothing = torch.zeros_like(first)
    every = [first] + [nothing] * (frames - 1)
    if last is not None:
        every[-1] = last
    return torch.stack(every, dim=2)


def condition(way: live.ImageToVideo, first: Tensor, last: Tensor | None, frames: int) -> Tensor:
    """Mask and latents in float64, frame by frame."""
    z = way.encode(clip_of(first, last, frames)).double()
    mean, std = (torch.tensor(x, dtype=torch.float64)[:, None, None, None] for x in way.constants)
    mask = z.new_zeros(len(z), way.ratio, *z.shape[2:])
    mask[:, :, 0] = 1
    if last is not None:
        mask[:, -1, -1] = 1
    return torch.cat([mask, (z - mean) / std], dim=1)


@todo("6.5")
@pytest.mark.parametrize("ends", [1, 2])
@pytest.mark.parametrize("ratio", [2, 3, 4])
def test_a_picture_is_shown_as_wan_shows_it(
    candidate: Any, draw: Draw, ratio: int, ends: int
) -> None:
    """Mask and normalised latents of WanImageToVideoPipeline, of one encoding of the right clip."""
    way = live.image_to_video(ratio)
    batch, frames = draw.integer(2, 3), ratio * draw.integer(2, 3) + 1
    height, width = (way.spatial * n for n in draw.sample(range(1, 4), 2))
    first = picture(draw, batch, height, width)
    last = picture(draw, batch, height, width) if ends == 2 else None
    encode = recorded(way.encode, "encode")
    answer = candidate.image_condition(encode, first, last, frames, *way.constants, ratio)
    assert_calls(
        encode.calls,
        library=lambda: [(clip_of(first, last, frames),)],
        names=("video",),
        of="encode",
    )
    assert_matches(
        answer,
        library=lambda: way.condition(first, last, frames),
        truth=lambda: condition(way, first, last, frames),
        what=f"the condition of {frames} frames at ratio {ratio}, {ends} picture(s)",
    )


@todo("6.5", guards="clips of the fewest frames")
def test_the_shortest_clips(candidate: Any, draw: Draw) -> None:
    """One frame is the first alone; of two latent frames the second ends with the last."""
    ratio = draw.choice([2, 3])
    way = live.image_to_video(ratio)
    first, last = picture(draw, 2, 4, 8), picture(draw, 2, 4, 8)
    for other, frames in ((None, 1), (last, ratio + 1)):
        answer = candidate.image_condition(
            recorded(way.encode, "encode"), first, other, frames, *way.constants, ratio
        )
        assert_matches(
            answer,
            library=lambda other=other, frames=frames: way.condition(first, other, frames),  # type: ignore[misc]
            truth=lambda other=other, frames=frames: condition(way, first, other, frames),  # type: ignore[misc]
            what=f"the condition of {frames} frame(s) at ratio {ratio}",
        )


@todo("6.5", guards="clips that cannot be")
def test_clips_that_cannot_be_are_errors(candidate: Any, draw: Draw) -> None:
    """Frames that are not 1 + ratio·k, or two pictures for one frame, raise ValueError."""
    way = live.image_to_video(3)
    first, last = picture(draw, 2, 4, 8), picture(draw, 2, 4, 8)
    for other, frames in ((None, draw.choice([5, 6, 8, 9])), (last, 1), (last, 6), (None, 0)):
        assert_raises(
            lambda other=other, frames=frames: candidate.image_condition(  # type: ignore[misc]
                recorded(way.encode, "encode"), first, other, frames, *way.constants, 3
            ),
            "ValueError",
            what=f"{frames} frame(s) at ratio 3 with {1 if other is None else 2} picture(s)",
        )


# 6.6


@todo("6.6")
@pytest.mark.parametrize("alike", [False, True])
def test_the_first_frame_stays_as_ltx_keeps_it(candidate: Any, draw: Draw, alike: bool) -> None:
    """Calls and end of a run are those of LTXImageToVideoPipeline."""
    batch = draw.integer(2, 3)
    frames = batch if alike else draw.choice([n for n in (2, 3, 4) if n != batch])
    height, width = (2 * n for n in draw.sample(range(1, 4), 2))  # pixels in multiples of 32
    given = live.FirstFrame(
        noise=draw.latents(batch, live.CHANNELS, frames, height, width),
        first=draw.latents(batch, live.CHANNELS, 1, height, width),
        text=draw.latents(batch, 3, live.TEXT),
        steps=draw.integer(3, 5),
    )
    denoiser, scheduler = recorded(given.denoiser), LentScheduler(given.scheduler())
    lent = remote(scheduler, attributes=["timesteps", "sigmas"], methods=["step"])
    answer = candidate.first_frame_loop(denoiser, lent, given.noise, given.first)
    assert_agrees(answer, library=lambda: given.run().latents, what="the latents at the end")
    assert_calls(denoiser.calls, library=lambda: given.run().calls, names=("x", "t"))
    assert_equals(len(scheduler.steps), value=given.steps, what="how often step was called")


# 6.7


def draw_windows(draw: Draw, extra: str) -> tuple[int, int, int]:
    """Frames, length and stride; the window added at the end has none, one or more new frames."""
    length = draw.choice([6, 8] if extra == "none" else [5, 7] if extra == "one" else [5, 6, 7, 8])
    stride = draw.integer(3, length - 2)
    new = {"none": 0, "one": 1, "more": draw.integer(2, stride - 1)}[extra]
    return length + draw.integer(1, 2) * stride + new, length, stride


def draw_hidden(draw: Draw, frames: int) -> Tensor:
    """Pixels, frames and features."""
    return draw.latents(draw.integer(2, 3), frames, 8)


def asked(length: int) -> Any:
    """The layer, which knows so many frames and no others."""

    def layer(x: Tensor) -> Tensor:
        if x.ndim != 3 or x.shape[1:] != (length, 8):
            raise ValueError(f"the layer was given {tuple(x.shape)}, a window is (P, {length}, 8)")
        return live.layer(x)

    return recorded(layer, "layer")


def blended(hidden: Tensor, length: int, stride: int, scheme: str) -> Tensor:
    """The mean in float64, frame by frame."""
    frames = hidden.shape[1]
    starts = list(range(0, frames - length + 1, stride))
    said = {start: live.layer(hidden[:, start : start + length]).double() for start in starts}
    end = live.layer(hidden[:, frames - length :]).double()
    out = torch.zeros_like(hidden, dtype=torch.float64)
    for frame in range(frames):
        places = [(start, frame - start) for start in starts if 0 <= frame - start < length]
        weights = [1 if scheme == "flat" else min(k + 1, length - k) for _, k in places]
        for (start, k), weight in zip(places, weights, strict=True):
            out[:, frame] += said[start][:, k] * weight / sum(weights)
        if not places:
            out[:, frame] = end[:, frame - frames]
    return out


@todo("6.7", guards="the list itself")
@pytest.mark.parametrize("extra", ["none", "one", "more"])
def test_windows_are_those_of_freenoise(candidate: Any, draw: Draw, extra: str) -> None:
    """The windows that enter the attention of FreeNoiseTransformerBlock."""
    length = draw.integer(2, 6)
    for frames, size, stride in (
        draw_windows(draw, extra),
        (length, length, draw.integer(1, length)),
    ):
        assert_equals(
            candidate.windows(frames, size, stride),
            library=lambda frames=frames, size=size, stride=stride: (  # type: ignore[misc]
                live.free_noise_windows(frames, size, stride)
            ),
            what=f"the windows of {size} in {frames} frames, {stride} apart",
        )


@todo("6.7")
@pytest.mark.parametrize("scheme", ["flat", "pyramid"])
@pytest.mark.parametrize("extra", ["none", "one", "more"])
def test_windows_are_blended_as_freenoise_does(
    candidate: Any, draw: Draw, extra: str, scheme: str
) -> None:
    """The mean of overlapping windows, each asked for once, and new frames as they are."""
    frames, length, stride = draw_windows(draw, extra)
    hidden, layer = draw_hidden(draw, frames), asked(length)
    answer = candidate.blend_windows(layer, hidden, length, stride, scheme)
    count = len(range(0, frames - length + 1, stride)) + (extra != "none")
    assert_equals(len(layer.calls), value=count, what="how often the layer was called")
    what = f"{frames} frames in windows of {length}, {stride} apart, {scheme}"
    if scheme == "pyramid" and extra == "more":  # the library divides by another frame's weight
        assert_matches_formula(
            answer,
            computed=lambda: blended(hidden, length, stride, scheme).float(),
            truth=lambda: blended(hidden, length, stride, scheme),
            what=what,
        )
        return
    assert_matches(
        answer,
        library=lambda: live.blended(hidden, length, stride, scheme),
        truth=lambda: blended(hidden, length, stride, scheme),
        what=what,
    )


@todo("6.7", guards="windows that cannot be")
def test_windows_that_cannot_be_are_errors(candidate: Any, draw: Draw) -> None:
    """A clip shorter than a window, strides that leave gaps, or an unknown scheme, raise."""
    length = draw.integer(4, 6)
    calls = [
        (length - draw.integer(1, 2), length, 2),
        (length + 4, length, -draw.integer(0, 2)),
        (length + 4, length, length + draw.integer(1, 3)),
    ]
    for frames, size, stride in calls:
        hidden = draw_hidden(draw, frames)
        assert_raises(
            lambda call=(frames, size, stride): candidate.windows(*call),  # type: ignore[misc]
            "ValueError",
            what=f"windows of {size} in {frames} frames, {stride} apart",
        )
        assert_raises(
            lambda hidden=hidden, size=size, stride=stride: candidate.blend_windows(  # type: ignore[misc]
                asked(size), hidden, size, stride, "flat"
            ),
            "ValueError",
            what=f"a blend of windows of {size} in {frames} frames, {stride} apart",
        )
    hidden, scheme = draw_hidden(draw, length + 2), draw.choice(["linear", "hann", ""])
    assert_raises(
        lambda: candidate.blend_windows(asked(length), hidden, length, 2, scheme),
        "ValueError",
        what=f"the scheme {scheme!r}",
    )
