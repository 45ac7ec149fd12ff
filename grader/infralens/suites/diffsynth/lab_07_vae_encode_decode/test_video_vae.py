"""Lab 07 of diffsynth: the learner's passage through video VAEs against diffusers' own."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from diffusers.models.autoencoders.autoencoder_kl_wan import AvgDown3D, DupUp3D, WanRMS_norm
from torch import Tensor

from infralens.examiner import (
    Draw,
    as_pixels,
    assert_agrees,
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_property,
    assert_raises,
    recorded,
    todo,
    unpack,
)
from infralens.suites.diffsynth.lab_07_vae_encode_decode import live
from infralens.suites.diffsynth.lab_07_vae_encode_decode.lent import (
    CLEARED,
    HANDED,
    Lent,
    LentDecoder,
    told,
)
from infralens.suites.releases import since

# 7.1

PADS = {"Wan": "zeros", "CogVideoX": "first", "LTX": "first"}


def draw_kernel(draw: Draw, family: str, length: int) -> tuple[Tensor, Tensor]:
    """Weight and bias of a causal convolution, square where the family cannot do without."""
    channels, depth = draw.sample(range(2, 5), 2)
    sides = (3, 3) if family == "CogVideoX" else draw.sample([1, 3], 2)
    return draw.latents(depth, channels, length, *sides), draw.latents(depth)


def draw_clip(draw: Draw, channels: int, frames: int) -> Tensor:
    """A clip whose axes differ."""
    height, width = draw.sample(range(4, 8), 2)
    return draw.latents(2, channels, frames, height, width)


def before(x: Tensor, length: int, pad: str) -> Tensor:
    """The clip with what stands before it."""
    first = x[:, :, :1]
    start = torch.zeros_like(first) if pad == "zeros" else first
    return torch.cat([start] * (length - 1) + [x], dim=2)


def convolved(x: Tensor, weight: Tensor, bias: Tensor, pad: str) -> Tensor:
    """The formula in float64, tap by tap."""
    length, kh, kw = weight.shape[2:]
    joined = F.pad(before(x, length, pad).double(), (kw // 2, kw // 2, kh // 2, kh // 2))
    frames, height, width = x.shape[2:]
    y = bias.double().reshape(1, -1, 1, 1, 1)
    for t in range(length):
        for i in range(kh):
            for j in range(kw):
                seen = joined[:, :, t : t + frames, i : i + height, j : j + width]
                y = y + torch.einsum("dc,bcfhw->bdfhw", weight[:, :, t, i, j].double(), seen)
    return y


@todo("7.1", guards="kernels and clips of any length")
def test_a_clip_is_convolved_as_the_family_does_it(candidate: Any, draw: Draw) -> None:
    """A whole clip through each family's causal convolution, and the frames that are remembered."""
    kernels = (("Wan", 3), ("Wan", 5), ("CogVideoX", 2), ("CogVideoX", 5), ("LTX", 3))
    for family, length in kernels:
        weight, bias = draw_kernel(draw, family, length)
        for frames in (draw.integer(6, 8), 1):
            x = draw_clip(draw, weight.shape[1], frames)
            answer = candidate.causal_conv3d(x, weight, bias, None, PADS[family])
            y, cache = unpack(answer, "y", "cache")
            assert_matches(
                y,
                library=partial(live.convolved, family, weight, bias, x),
                truth=partial(convolved, x, weight, bias, PADS[family]),
                what=f"{frames} frame(s) as {family} begins a video, a kernel of {length}",
            )
            assert_equals(
                cache,
                value=before(x, length, PADS[family])[:, :, frames:],
                what=f"the cache after {frames} frame(s), a kernel of {length}",
            )


@todo("7.1", guards="a clip in pieces, each with the cache of the one before")
@pytest.mark.parametrize("pad", ["zeros", "first"])
@pytest.mark.parametrize("lengths", [(1, 4, 4), (1,) * 7, (3, 2, 4)], ids=str)
def test_pieces_give_what_the_whole_clip_gives(
    candidate: Any, draw: Draw, lengths: tuple[int, ...], pad: str
) -> None:
    """Piece by piece, each with the cache of the one before, a clip comes out as in one go."""
    family, length = ("Wan", draw.choice([3, 5])) if pad == "zeros" else ("CogVideoX", 4)
    weight, bias = draw_kernel(draw, family, length)
    x = draw_clip(draw, weight.shape[1], sum(lengths))
    joined, cache = before(x, length, pad), None
    for piece in live.pieces(lengths):
        answer = candidate.causal_conv3d(x[:, :, piece], weight, bias, cache, pad)
        y, mine = unpack(answer, "y", "cache")
        assert_matches(
            y,
            library=lambda piece=piece: live.convolved(family, weight, bias, x)[:, :, piece],  # type: ignore[misc]
            truth=lambda piece=piece: convolved(x, weight, bias, pad)[:, :, piece],  # type: ignore[misc]
            what=f"frames {piece.start} to {piece.stop - 1} of {sum(lengths)}",
        )
        cache = joined[:, :, piece.stop : piece.stop + length - 1].clone()
        assert_equals(mine, value=cache, what=f"the cache after frame {piece.stop - 1}")


@todo("7.1", guards="what cannot be convolved")
def test_a_padding_or_cache_that_cannot_be_is_an_error(candidate: Any, draw: Draw) -> None:
    """A pad that is neither, and a cache that is too long or too short, raise ValueError."""
    weight, bias = draw_kernel(draw, "Wan", 3)
    x = draw_clip(draw, weight.shape[1], 4)
    pad = draw.choice(["replicate", "constant", "last"])
    for cache in (None, x[:, :, :2]):
        assert_raises(
            lambda cache=cache: candidate.causal_conv3d(x, weight, bias, cache, pad),  # type: ignore[misc]
            "ValueError",
            what=f"the pad {pad}",
        )
    for frames in (1, 3):
        assert_raises(
            lambda frames=frames: candidate.causal_conv3d(  # type: ignore[misc]
                x, weight, bias, x[:, :, :frames], "zeros"
            ),
            "ValueError",
            what=f"a cache of {frames} frame(s) for a kernel of 3",
        )


# 7.2


def draw_video(draw: Draw, frames: int, *, batch: int = 2) -> Tensor:
    """A video in model range, of sides that differ."""
    height, width = draw.sample([8, 12, 16], 2)
    return draw.tensor(batch, 3, frames, height, width, low=-1.0, high=1.0)


@todo("7.2", guards="what the library itself does, and a single frame")
def test_a_video_is_encoded_as_wan_encodes_it(candidate: Any, draw: Draw) -> None:
    """The first frame and then four at a time enter the encoder; the moments are Wan's."""
    vae = live.wan(4)
    for steps, batch in ((draw.integer(2, 3), 2), (0, 3)):
        video = draw_video(draw, 4 * steps + 1, batch=batch)
        lent = Lent(vae, past=draw_video(draw, 1, batch=batch)[:, :, :, :8, :8])
        moments = candidate.encode_in_chunks(lent.lend(), video)
        assert_equals(
            lent.lengths,
            library=lambda video=video: live.lengths_encoded(vae, video),  # type: ignore[misc]
            what=f"how many of {video.shape[2]} frames entered the encoder, call by call",
        )
        assert_agrees(
            moments,
            library=lambda video=video: live.encoded(vae, video),  # type: ignore[misc]
            what=f"the moments of {video.shape[2]} frames",
        )


@todo("7.2")
def test_the_ratio_is_the_vaes(candidate: Any, draw: Draw) -> None:
    """A VAE that halves time once takes its frames in twos, one that never does one by one."""
    batch = draw.integer(2, 3)
    for ratio, groups in ((2, draw.integer(2, 3)), (1, draw.integer(1, 2))):
        vae = live.wan(ratio)
        video = draw_video(draw, ratio * groups + 1, batch=batch)
        past = torch.zeros_like(video) + 0.5
        lent = Lent(vae, past=past)
        moments = candidate.encode_in_chunks(lent.lend(), video)
        assert_equals(
            lent.lengths,
            value=[1] + [ratio] * groups,
            what=f"how many of {video.shape[2]} frames entered the encoder, call by call",
        )
        assert_agrees(
            moments,
            library=partial(live.encoded_by_hand, vae, video),
            what=f"the moments of {video.shape[2]} frames at ratio {ratio}",
        )


@todo("7.2", guards="a tail that would be dropped")
def test_frames_that_fill_no_group_are_an_error(candidate: Any, draw: Draw) -> None:
    """A number of frames that is not r·k + 1 raises ValueError."""
    for ratio, frames in ((4, 4 * draw.integer(1, 2) + draw.choice([2, 3])), (2, 6)):
        lent = Lent(live.wan(ratio)).lend()
        video = draw_video(draw, frames)
        assert_raises(
            lambda lent=lent, video=video: candidate.encode_in_chunks(lent, video),  # type: ignore[misc]
            "ValueError",
            what=f"{frames} frames at ratio {ratio}",
        )


# 7.3

FAMILIES = ("Wan", "LTX", "CogVideoX", "Flux 2")


def draw_stats(draw: Draw, family: str, channels: int, invert: bool = False) -> dict[str, Any]:
    """The constants of a family, as its config has them."""

    def numbers(low: float, high: float, count: int = channels) -> list[float]:
        return draw.tensor(count, low=low, high=high).tolist()

    if family == "CogVideoX":
        return {"scaling_factor": draw.uniform(0.4, 0.8), "invert_scale_latents": invert}
    if family == "Flux 2":
        count = 4 * channels
        variances = numbers(0.01, 0.05, 2) + numbers(0.3, 3.0, count - 2)
        return {"bn_mean": numbers(-1, 1, count), "bn_var": variances, "bn_eps": 1e-3}
    stats: dict[str, Any] = {
        "latents_mean": numbers(-1.5, 1.5),
        "latents_std": numbers(1.2, 3.5),
    }
    if family == "LTX":
        stats["scaling_factor"] = draw.choice([0.6, 1.7])
    return stats


def draw_encoded(draw: Draw, family: str, channels: int, dtype: torch.dtype) -> Tensor:
    """Latents as the family's VAE has them: of a video, or for Flux 2 of an image."""
    height, width = draw.sample([4, 6, 8], 2)
    frames = () if family == "Flux 2" else (draw.integer(2, 3),)
    return draw.latents(2, channels, *frames, height, width, dtype=dtype)


def column(values: Any, axes: int) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).double().reshape(-1, *[1] * (axes - 2))


def folded(z: Tensor) -> Tensor:
    """Blocks of 2 × 2 pixels in the channels: channel, row, column."""
    corners = [z[..., row::2, side::2] for row in (0, 1) for side in (0, 1)]
    return torch.stack(corners, dim=2).flatten(1, 2)


def unfolded(x: Tensor) -> Tensor:
    batch, channels, height, width = x.shape
    z = x.new_empty(batch, channels // 4, 2 * height, 2 * width)
    for place in range(4):
        z[..., place // 2 :: 2, place % 2 :: 2] = x[:, place::4]
    return z


def formula(latents: Tensor, stats: dict[str, Any], back: bool) -> Any:
    """To the denoiser or `back`, in float64."""
    z = latents.double()
    f = stats.get("scaling_factor", 1.0)
    if "invert_scale_latents" in stats:
        return z * f if back == stats["invert_scale_latents"] else z / f
    if "bn_mean" in stats:
        z = z if back else folded(z)
        mean = column(stats["bn_mean"], 4)
        deviation = (column(stats["bn_var"], 4) + stats["bn_eps"]).sqrt()
        return unfolded(z * deviation + mean) if back else (z - mean) / deviation
    mean, std = (column(stats[name], z.dim()) for name in ("latents_mean", "latents_std"))
    return z * std / f + mean if back else (z - mean) * f / std


@todo("7.3")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_denoiser_gets_what_the_familys_gets(
    candidate: Any, draw: Draw, family: str, dtype: torch.dtype
) -> None:
    """to_model gives the latents that a pipeline of the family makes of what its VAE encoded."""
    channels = draw.integer(3, 5)
    for invert in (True, False) if family == "CogVideoX" else (False,):
        stats = draw_stats(draw, family, channels, invert)
        latents = draw_encoded(draw, family, channels, dtype)
        assert_matches(
            candidate.to_model(latents, stats),
            library=partial(live.to_model, family, latents, stats),
            truth=partial(formula, latents, stats, False),
            what=f"latents for the denoiser of {family}",
        )


@todo("7.3")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_vae_gets_what_the_familys_gets(
    candidate: Any, draw: Draw, family: str, dtype: torch.dtype
) -> None:
    """to_vae gives the latents that a pipeline of the family has its VAE decode."""
    channels = draw.integer(3, 5)
    stats = draw_stats(draw, family, channels)
    latents = draw_encoded(draw, family, 4 * channels if family == "Flux 2" else channels, dtype)
    assert_matches(
        candidate.to_vae(latents, stats),
        library=partial(live.to_vae, family, latents, stats),
        truth=partial(formula, latents, stats, True),
        what=f"latents for the VAE of {family}",
    )


def draw_far(draw: Draw, *shape: int) -> tuple[dict[str, Any], Tensor, Tensor]:
    """Constants of Wan, and latents of float16 for both ways, which leave it in between.

    In half of the places z − m, which is x · s, is beyond the largest float16; what is asked for is
    not, with a deviation of 1.2 or more.
    """
    stats = draw_stats(draw, "Wan", shape[1])
    stats["latents_mean"] = draw.tensor(shape[1], low=-30_000, high=-26_000).tolist()
    z = draw.tensor(*shape, low=40_000, high=48_000)
    z = torch.where(draw.latents(*shape) > 0, z, -z).half()
    z[0, 0, 0, 0], z[1, 0, 0, 0] = 44_000, -44_000
    return stats, z, formula(z, stats, False).half()


@todo("7.3", guards="images of a video's family, and a factor that was inverted")
def test_images_and_inverted_factors_go_both_ways(candidate: Any, draw: Draw) -> None:
    """Four axes with a constant a channel, also in float16, and a factor that was inverted."""
    channels = draw.integer(3, 5)
    height, width = draw.sample(range(3, 8), 2)
    image = draw.latents(2, channels, height, width)
    video = draw.latents(2, channels, 2, height, width)
    cases = [
        draw_far(draw, 2, channels, height, width),
        (draw_stats(draw, "LTX", channels), image, image),
        (draw_stats(draw, "CogVideoX", channels, invert=True), video, video),
    ]
    for stats, encoded, denoised in cases:
        for name, latents in (("to_model", encoded), ("to_vae", denoised)):
            exact = partial(formula, latents, stats, name == "to_vae")
            assert_matches_formula(
                getattr(candidate, name)(latents, stats),
                computed=lambda exact=exact, latents=latents: exact().to(latents.dtype),  # type: ignore[misc]
                truth=exact,
                what=f"{name} of {latents.ndim} axes by {', '.join(stats)}",
            )


@todo("7.3", guards="names and sides that no family has")
def test_other_names_and_odd_sides_are_an_error(candidate: Any, draw: Draw) -> None:
    """A missing name, one too many, or an odd side with Flux 2's, raise ValueError."""
    full = {family: draw_stats(draw, family, 4) for family in FAMILIES}
    wrong = [
        {},
        {"scaling_factor": 0.5},
        {"latents_mean": full["Wan"]["latents_mean"]},
        {**full["LTX"], "shift_factor": 0.1},
        {**full["Wan"], "invert_scale_latents": False},
        {name: full["Flux 2"][name] for name in ("bn_mean", "bn_var")},
    ]
    for stats in draw.sample(wrong, len(wrong)):
        for name in ("to_model", "to_vae"):
            latents = draw.latents(2, 16 if name == "to_vae" and "bn_mean" in stats else 4, 2, 4)
            assert_raises(
                lambda name=name, latents=latents, stats=stats: (  # type: ignore[misc]
                    getattr(candidate, name)(latents, stats)
                ),
                "ValueError",
                what=f"{name} by {', '.join(stats) or 'nothing'}",
            )
    for sides in ((3, 4), (4, 5)):
        latents = draw.latents(2, 4, *sides)
        assert_raises(
            lambda latents=latents: candidate.to_model(latents, full["Flux 2"]),  # type: ignore[misc]
            "ValueError",
            what=f"2 × 2 pixels of {sides[0]} × {sides[1]}",
        )


# 7.4


@todo("7.4")
@pytest.mark.parametrize("case", [(7, 4, 3), (5, 4, 1), (5, 3, 3), (3, 3, 2)], ids=str)
def test_tiles_in_time_are_those_of_hunyuan(
    candidate: Any, draw: Draw, case: tuple[int, int, int]
) -> None:
    """Lengths and pictures are those of AutoencoderKLHunyuanVideo, which decodes in tiles."""
    frames, tile, stride = case
    latents = draw.latents(2, 4, frames, *draw.sample([1, 2, 3], 2))
    decode = recorded(live.decode_whole, "decode")
    answer = candidate.temporal_tiled_decode(decode, latents, tile, stride, 4)
    assert_equals(
        [call[0].shape[2] for call in decode.calls],
        library=lambda: live.tiled(latents, tile, stride)[1],
        what=f"the latent frames in each call of decode, {frames} in tiles of {tile}",
    )
    assert_agrees(
        answer,
        library=lambda: live.tiled(latents, tile, stride)[0],
        what=f"{frames} latent frames decoded in tiles of {tile} every {stride}",
    )


@todo("7.4", guards="ratios that no network here has")
@pytest.mark.parametrize("ratio", [2, 3, 8])
def test_tiles_of_straight_lines_are_the_whole(candidate: Any, draw: Draw, ratio: int) -> None:
    """Where a decoder draws straight lines, tiles and the whole are the same, frame by frame."""
    decode = live.stretched(ratio)
    for _ in range(2):
        tile = draw.integer(2, 4)
        stride = draw.integer(1, tile)
        latents = draw.latents(2, 3, draw.integer(tile + 2, 3 * tile), 2, 3)
        assert_property(
            candidate.temporal_tiled_decode(decode, latents, tile, stride, ratio),
            equals=partial(decode, latents),
            what=f"{latents.shape[2]} latent frames in tiles of {tile} every {stride}",
        )


@todo("7.4", guards="strides that cannot be")
def test_a_stride_that_cannot_be_is_an_error(candidate: Any, draw: Draw) -> None:
    """A stride below 1 or above the tile raises ValueError, for a short clip as well."""
    tile = draw.integer(3, 5)
    short = draw.choice([2, 9])
    for stride, frames in ((0, short), (-1, 11 - short), (tile + 1, draw.choice([2, 9]))):
        latents = draw.latents(2, 3, frames, 2, 3)
        assert_raises(
            lambda stride=stride, latents=latents: candidate.temporal_tiled_decode(  # type: ignore[misc]
                live.stretched(2), latents, tile, stride, 2
            ),
            "ValueError",
            what=f"tiles of {tile} every {stride}",
        )


# 7.5


def norm_layer(gamma: Tensor, bias: Tensor | None) -> Any:
    layer = WanRMS_norm(len(gamma), images=False, bias=bias is not None)
    layer = layer.to(gamma.dtype)
    state = {"gamma": gamma} if bias is None else {"gamma": gamma, "bias": bias}
    layer.load_state_dict(state)
    return layer


def normed_by_wan(x: Tensor, gamma: Tensor, bias: Tensor | None) -> Tensor:
    """Before 0.38 the squares of half precision were taken in half precision, and overflowed."""
    made: Tensor = norm_layer(gamma, bias)(x if since("0.38") else x.float())
    return made.to(x.dtype)


def normed(x: Tensor, gamma: Tensor, bias: Tensor | None) -> Any:
    """The formula in float64."""
    wide = x.double()
    length = wide.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12)
    scaled = wide / length * x.shape[1] ** 0.5 * gamma.double()
    return scaled if bias is None else scaled + bias.double()


@todo("7.5")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_channels_are_brought_to_one_length(
    candidate: Any, draw: Draw, biased: bool, dtype: torch.dtype
) -> None:
    """The norm is WanRMS_norm's, where pixels are large, small or zero as well."""
    channels = draw.choice([8, 12])
    height, width = draw.sample(range(3, 7), 2)
    x = draw.latents(2, channels, 3, height, width)
    x[:, :, 0] *= 300
    x[:, :, 1, 0] = 30_000 * x[:, :, 1, 0].sign()
    x[:, :, 1, 1] *= 2e-3
    x[:, :, 1, 1, 0] *= 1e-5
    x[:, :, 1, 1, 1] *= 5e-11  # shorter than the floor
    x[:, :, 1, 2] = 0
    x = x.to(dtype)
    gamma = draw.tensor(channels, 1, 1, 1, low=0.5, high=2.0, dtype=dtype)
    bias = draw.latents(channels, 1, 1, 1, dtype=dtype) if biased else None
    assert_matches(
        candidate.channel_rms_norm(x, gamma, bias),
        library=lambda: normed_by_wan(x, gamma, bias),
        truth=lambda: normed(x, gamma, bias),
        what="the normed channels",
    )


# 7.6


@todo("7.6")
@pytest.mark.parametrize("case", [(4, False), (4, True), (2, True)], ids=str)
def test_frames_leave_as_they_are_decoded(
    candidate: Any, draw: Draw, case: tuple[int, bool]
) -> None:
    """Each latent frame is decoded and handed out before the next; the pictures are Wan's."""
    ratio, residual = case
    # Of two frames, one too late and all at the end are the same.
    frames = draw.integer(2, 3) if ratio == 2 else 3
    vae = live.wan(ratio, residual, exact=True)
    latents = 2 * draw.latents(2, 4, frames, *draw.sample([1, 2, 3], 2))
    lent = LentDecoder(vae, past=latents.flip(0))
    handed: list[Any] = []

    def sink(pictures: Any) -> None:
        lent.events.append(HANDED)
        handed.append(pictures)

    count = candidate.decode_stream(lent.lend(), latents, sink)

    def events() -> list[str]:
        found = [CLEARED]
        for first in live.decoded(vae, latents).firsts:
            found += [told(1, first), HANDED]
        return found

    assert_equals(lent.told(), library=events, what="what happened, in order")
    for i, part in enumerate(live.pieces([1] + [ratio] * (frames - 1))):
        assert_equals(
            as_pixels(handed[i]),
            library=lambda part=part: live.decoded(vae, latents).pictures[:, part],  # type: ignore[misc]
            what=f"the pictures of latent frame {i}",
        )
    assert_equals(
        count,
        library=lambda: sum(live.decoded(vae, latents).lengths),
        what=f"the number of frames of {frames} latent frames",
    )


# 7.7

WAYS = [(4, 8, 2, 2), (6, 4, 2, 1), (8, 4, 3, 2), (3, 6, 1, 2)]


def averaged(x: Tensor, out: int, ft: int, fs: int) -> Tensor:
    """The formula in float64, number by number of a block."""
    missing = -x.shape[2] % ft
    x = F.pad(x.double(), (0, 0, 0, 0, missing, 0))
    parts = [
        x[:, c, t::ft, i::fs, j::fs]
        for c in range(x.shape[1])
        for t in range(ft)
        for i in range(fs)
        for j in range(fs)
    ]
    group = len(parts) // out
    means = [sum(parts[k * group : (k + 1) * group]) / group for k in range(out)]
    return torch.stack(means, dim=1)  # type: ignore[arg-type]


def duplicated(x: Tensor, out: int, ft: int, fs: int, first: bool) -> Tensor:
    """The formula in float64, place by place of a block."""
    batch, channels, frames, height, width = x.shape
    y = x.new_zeros(batch, out, frames * ft, height * fs, width * fs, dtype=torch.float64)
    repeats, place = out * ft * fs * fs // channels, 0
    for c in range(out):
        for t in range(ft):
            for i in range(fs):
                for j in range(fs):
                    y[:, c, t::ft, i::fs, j::fs] = x[:, place // repeats].double()
                    place += 1
    return y[:, :, ft - 1 :] if first else y


@todo("7.7")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_blocks_are_averaged_as_in_wan(
    candidate: Any, draw: Draw, way: tuple[int, int, int, int]
) -> None:
    """average_down is AvgDown3D, for as many frames as divide and for one more."""
    channels, out, ft, fs = way
    for frames in (4, draw.choice([3, 5])):
        height, width = (fs * n for n in draw.sample(range(2, 5), 2))
        x = draw.latents(2, channels, frames, height, width)
        assert_matches(
            candidate.average_down(x, out, ft, fs),
            library=lambda x=x: AvgDown3D(channels, out, ft, fs)(x),  # type: ignore[misc]
            truth=partial(averaged, x, out, ft, fs),
            what=f"{frames} frames of {channels} channels averaged to {out}",
        )


@todo("7.7")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_channels_are_repeated_as_in_wan(
    candidate: Any, draw: Draw, way: tuple[int, int, int, int], first: bool
) -> None:
    """duplicate_up is DupUp3D, at the beginning of a video and later."""
    out, channels, ft, fs = way
    frames, height, width = draw.sample(range(2, 6), 3)
    x = draw.latents(2, channels, frames, height, width)
    assert_matches(
        candidate.duplicate_up(x, out, ft, fs, first),
        library=lambda: DupUp3D(channels, out, ft, fs)(x, first_chunk=first),
        truth=partial(duplicated, x, out, ft, fs, first),
        what=f"{frames} frames of {channels} channels repeated to {out}",
    )


@todo("7.7", guards="channels that do not divide")
def test_channels_that_do_not_divide_are_an_error(candidate: Any, draw: Draw) -> None:
    """Channels and blocks that make no whole number of channels raise ValueError."""
    x = draw.latents(2, 5, 2, 4, 4)
    out = draw.choice([3, 7, 9])
    assert_raises(
        lambda: candidate.average_down(x, out, 2, 2),
        "ValueError",
        what=f"5 channels in blocks of 8 averaged to {out}",
    )
    assert_raises(
        lambda: candidate.duplicate_up(x, out, 2, 2, draw.choice([True, False])),
        "ValueError",
        what=f"5 channels repeated to {out} in blocks of 8",
    )
