"""Lab 10: the learner's memory optimizations against the plain answer, diffusers and accelerate."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers.models.attention_processor import AttnProcessor, SlicedAttnProcessor
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_property,
    assert_raises,
    metered,
    todo,
    unpack,
)
from infralens.suites.diffusers.lab_10_memory_optimization_reading import parts

# What is float64 may have been worked out in float32 on the way, as many write it.
ONLY_FLOAT32 = 64 * torch.finfo(torch.float32).eps / torch.finfo(torch.float64).eps
VAE_ULPS = 256  # float32 convolutions in a row; right and wrong lie a thousand times further apart


# 10.1


def draw_attention(
    draw: Draw, batch: int, heads: int, queries: int, keys: int, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    q = 1.5 * draw.latents(batch, heads, queries, size)
    return q, draw.latents(batch, heads, keys, size), draw.latents(batch, heads, keys, size)


SLICES = {  # batch, heads, slice_size: the number of slices is whole, or the last one is smaller
    "whole slices": [(2, 6, 3), (3, 4, 2), (3, 6, 2), (2, 4, 4), (4, 3, 3)],
    "a smaller last slice": [(2, 5, 3), (2, 5, 4), (4, 4, 3), (2, 7, 4), (3, 7, 5)],
    "one by one": [(2, 3, 1), (3, 2, 1), (2, 5, 1)],
    "one picture": [(1, 5, 2), (1, 7, 4), (1, 4, 4)],
    "one head": [(2, 1, 1), (3, 1, 1)],
}


@todo("10.1")
@pytest.mark.parametrize("kind", SLICES)
def test_slicing_changes_no_number(candidate: Any, draw: Draw, kind: str) -> None:
    """sliced_attention is Attention with SlicedAttnProcessor, whatever the slice size."""
    batch, heads, slice_size = draw.choice(SLICES[kind])
    queries, keys = draw.sample([6, 7, 9, 10, 13], 2)
    q, k, v = draw_attention(draw, batch, heads, queries, keys, draw.choice([3, 5, 8, 12]))
    assert_matches(
        candidate.sliced_attention(q, k, v, slice_size),
        library=lambda: parts.attention(SlicedAttnProcessor(slice_size), q, k, v),
        truth=lambda: parts.attended(q.double(), k.double(), v.double())[0],
        what=f"attention in slices of {slice_size}, heads {heads}, batch {batch}",
    )


REFUSED = ["zero", "below zero", "one more than heads"]


@todo("10.1")
@pytest.mark.parametrize(
    ("kind", "batch", "heads"),
    [
        *((kind, 3, 4) for kind in (*REFUSED, "all of the batch")),
        *((kind, 1, 5) for kind in REFUSED),
        *((kind, 2, 1) for kind in (*REFUSED, "all of the batch")),
    ],
)
def test_a_slice_holds_at_least_one_head_and_at_most_all(
    candidate: Any, draw: Draw, kind: str, batch: int, heads: int
) -> None:
    """A slice_size below 1 or above heads is refused, as set_attention_slice does."""
    q, k, v = draw_attention(draw, batch, heads, 4, 5, 3)
    slice_size = {
        "zero": 0,
        "below zero": -draw.integer(1, 3),
        "one more than heads": heads + 1,
        "all of the batch": batch * heads,
    }[kind]
    assert_raises(
        lambda: candidate.sliced_attention(q, k, v, slice_size),
        "ValueError",
        what=f"slice_size {slice_size} for {heads} heads",
    )


@todo("10.1", guards="scores beyond what exp can hold")
@pytest.mark.parametrize("kind", ["large scores", "small scores"])
def test_extreme_scores_are_weighed(candidate: Any, draw: Draw, kind: str) -> None:
    """exp of 1000 overflows and exp of −1000 is 0: softmax takes the largest score off first."""
    q, blocks = draw_parts(draw, [7], shift=draw_shift(draw, kind))
    ((k, v),) = blocks
    assert_matches_formula(
        candidate.sliced_attention(q, k, v, draw.integer(1, q.shape[1])),
        computed=lambda: parts.attended(q, k, v)[0],
        truth=lambda: attended_to(q, blocks)[0],
        what=f"attention with {kind}",
    )


def assert_like(answer: Any, like: Tensor, what: str) -> None:
    """The answer is a tensor of this shape and dtype, before anything is taken out of it."""
    mine = (tuple(answer.shape), str(answer.dtype)) if isinstance(answer, Tensor) else answer
    assert_equals(
        mine, value=(tuple(like.shape), str(like.dtype)), what=f"the shape and dtype of {what}"
    )


@todo("10.1", guards="the dtype of q")
def test_the_answer_has_the_dtype_of_q(candidate: Any, draw: Draw) -> None:
    """Attention of float64 is float64, and the same attention."""
    q, k, v = (numbers.double() for numbers in draw_attention(draw, 2, 3, 5, 7, 4))
    assert_property(
        candidate.sliced_attention(q, k, v, 2),
        equals=lambda: parts.attended(q, k, v)[0],
        what="attention in float64",
        ulps=ONLY_FLOAT32,
    )


SIZE, ROWS = 3, 64
TOKENS = {1: 768, 2: 543}  # by slice_size: as many scores in a slice, so one budget and one process
MAPS = {1: 24, 2: 32}
ONE_SLICE = 8 * 768**2  # its scores in float64
ALL_ROWS = 4 * 24 * 768 * SIZE  # of q, k, v or the answer, in float32
# Three slices in float64 and a half, and copies of the rows; all maps are 57 or 38 MB in float32.
SLICED_BUDGET = 7 * ONE_SLICE // 2 + 8 * ALL_ROWS


@todo("10.1", again=False)  # what is remembered by its shapes fails above
@pytest.mark.parametrize(
    ("batch", "heads", "slice_size"),
    [(1, MAPS[1], 1), (MAPS[1] // 2, 2, 1), (MAPS[2] // 4, 4, 2)],
    ids=["heads", "batch", "two at a time"],
)
def test_few_maps_of_scores_are_alive(
    candidate: Any, draw: Draw, batch: int, heads: int, slice_size: int
) -> None:
    """The memory is that of slice_size maps of scores, not of all of them and not of eight."""
    tokens = TOKENS[slice_size]
    inputs = draw_attention(draw, batch, heads, tokens, tokens, SIZE)
    q, k, v = (numbers.cpu() for numbers in inputs)
    with metered(candidate, budget=SLICED_BUDGET) as mine:
        answer = mine.sliced_attention(q, k, v, slice_size)
    assert_like(answer, q, "attention")
    # Queries know nothing of each other: some of them, drawn afresh, tell of them all.
    rows = draw.sample(range(tokens), ROWS)
    assert_matches(
        answer[:, :, rows],
        library=lambda: parts.attention(SlicedAttnProcessor(slice_size), q[:, :, rows], k, v),
        truth=lambda: parts.attended_in_turn(q[:, :, rows].double(), k.double(), v.double()),
        what=f"attention in slices of {slice_size}, heads {heads}, batch {batch}, some queries",
    )


# 10.2


def draw_parts(
    draw: Draw, sizes: list[int], batch: int = 2, shift: float = 0.0, queries: int = 0
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Queries, and keys and values in blocks of these sizes.

    `shift` is added to a third of the scores and taken from another, query by query and head by
    head. The rest stay as they are: an answer of which no number is finite could not be named.
    """
    heads, size = draw.integer(2, 4), draw.choice([4, 6, 9])
    queries = queries or draw.choice([5, 6, 7])
    q, k, v = draw_attention(draw, batch, heads, queries, sum(sizes), size)
    if shift:  # along the last coordinate q·k is the same for all
        turn = torch.arange(heads)[:, None] + torch.arange(queries)
        q[..., -1] = (20.0 - 20.0 * (turn % 3)).to(q.device)
        k[..., -1] = shift * size**0.5 / 20
    return q, list(zip(torch.split(k, sizes, 2), torch.split(v, sizes, 2), strict=True))


def joined(blocks: list[tuple[Tensor, Tensor]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """All keys and all values."""
    k, v = (torch.cat(pieces, 2).to(dtype) for pieces in zip(*blocks, strict=True))
    return k, v


def attended_to(q: Tensor, blocks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """(out, lse) over all keys, in float64."""
    return parts.attended(q.double(), *joined(blocks, torch.float64))


def assert_attended(answer: Any, q: Tensor, blocks: list[tuple[Tensor, Tensor]]) -> None:
    """The answer is (out, lse) over all these keys: Attention with AttnProcessor, and logsumexp."""
    out, lse = unpack(answer, "out", "lse")
    truth = functools.cache(lambda: attended_to(q, blocks))
    assert_matches(
        out,
        library=lambda: parts.attention(AttnProcessor(), q, *joined(blocks, q.dtype)),
        truth=lambda: truth()[0],
        what="out over all keys",
    )
    assert_matches_formula(
        lse,
        computed=lambda: parts.attended(q, *joined(blocks, q.dtype))[1],
        truth=lambda: truth()[1],
        what="lse over all keys",
    )


def merged(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Two parts that are not empty, by their lse alone, in the dtype of the inputs."""
    lse = torch.logaddexp(one[1], other[1])
    weights = [(part[1] - lse).exp().unsqueeze(-1) for part in (one, other)]
    return weights[0] * one[0] + weights[1] * other[0], lse


def assert_merged(answer: Any, q: Tensor, blocks: list[tuple[Tensor, Tensor]]) -> None:
    """The same where merging costs digits: scores that are very large, or very many parts.

    The tolerance is what merging these parts in float32 costs.
    """
    out, lse = unpack(answer, "out", "lse")
    truth = functools.cache(lambda: attended_to(q, blocks))

    @functools.cache
    def computed() -> tuple[Tensor, Tensor]:
        return functools.reduce(merged, (parts.attended(q, k, v) for k, v in blocks))

    for number, (part, what) in enumerate([(out, "out"), (lse, "lse")]):
        assert_matches_formula(
            part,
            computed=functools.partial(lambda n: computed()[n], number),
            truth=functools.partial(lambda n: truth()[n], number),
            what=f"{what} over all keys",
        )


def draw_shift(draw: Draw, kind: str) -> float:
    """What is added to every score: beyond what exp can hold, even in float64."""
    return draw.uniform(850, 1000) * (1 if kind == "large scores" else -1)


HUGE = pytest.mark.parametrize("kind", ["large scores", "small scores"])


@todo("10.2", guards="parts of unequal weight, of one picture and of several")
@pytest.mark.parametrize("batch", [1, 3])
def test_two_parts_are_merged_by_their_weights(candidate: Any, draw: Draw, batch: int) -> None:
    """merge_attention of two parts is Attention over all keys, and its lse theirs."""
    sizes = draw.sample([2, 3, 9, 14], 2)
    q, blocks = draw_parts(draw, sizes, batch)
    (out_a, lse_a), (out_b, lse_b) = (parts.attended(q, k, v) for k, v in blocks)
    assert_attended(candidate.merge_attention(out_a, lse_a, out_b, lse_b), q, blocks)


@todo("10.2", guards="logarithms beyond what exp can hold, on either side")
@HUGE
def test_parts_with_extreme_scores_are_merged(candidate: Any, draw: Draw, kind: str) -> None:
    """exp of 1000 overflows and exp of −1000 is 0: only differences of lse may be raised."""
    q, blocks = draw_parts(draw, draw.sample([3, 5, 9], 2), shift=draw_shift(draw, kind))
    (out_a, lse_a), (out_b, lse_b) = (parts.attended(q, k, v) for k, v in blocks)
    assert_merged(candidate.merge_attention(out_a, lse_a, out_b, lse_b), q, blocks)


@todo("10.2", guards="parts whose lse have any size")
@pytest.mark.parametrize("level", [1e5, -1e5], ids=["above", "below"])
def test_only_differences_of_lse_count(candidate: Any, draw: Draw, level: float) -> None:
    """Both lse may be as large as 100,000 or as low as −100,000."""
    q, blocks = draw_parts(draw, draw.sample([3, 5, 9], 2))
    one, other = ((out, lse + level) for out, lse in (parts.attended(q, k, v) for k, v in blocks))
    answer = unpack(candidate.merge_attention(*one, *other), "out", "lse")
    exact = [(out.double(), lse.double()) for out, lse in (one, other)]
    for number, what in enumerate(("out", "lse")):
        assert_matches_formula(
            answer[number],
            computed=functools.partial(lambda n: merged(one, other)[n], number),
            truth=functools.partial(lambda n: merged(*exact)[n], number),
            what=f"{what} of parts whose lse are near {level:g}",
        )


@todo("10.2", guards="the dtype of the parts")
def test_merged_parts_keep_their_dtype(candidate: Any, draw: Draw) -> None:
    """Parts in float64 give float64, and the same numbers."""
    q, blocks = draw_parts(draw, [4, 7])
    (out_a, lse_a), (out_b, lse_b) = (attended_to(q, [block]) for block in blocks)
    answer = unpack(candidate.merge_attention(out_a, lse_a, out_b, lse_b), "out", "lse")
    for number, what in enumerate(("out", "lse")):
        assert_property(
            answer[number],
            equals=functools.partial(lambda n: attended_to(q, blocks)[n], number),
            what=f"{what} over all keys, in float64",
            ulps=ONLY_FLOAT32,
        )


@todo("10.2", guards="two parts of which one has all the weight")
def test_a_part_far_below_the_other_has_no_weight(candidate: Any, draw: Draw) -> None:
    """Parts whose lse lie 2000 apart: the larger one's out is the result, on either side."""
    q, blocks = draw_parts(draw, [4, 7])
    (out_a, lse_a), (out_b, lse_b) = (parts.attended(q, k, v) for k, v in blocks)
    lse_a, lse_b = lse_a + draw.uniform(900, 1000), lse_b - draw.uniform(900, 1000)
    swap = torch.arange(q.shape[2], device=q.device) % 2 == 0
    lse_a, lse_b = torch.where(swap, lse_b, lse_a), torch.where(swap, lse_a, lse_b)
    answer = candidate.merge_attention(out_a, lse_a, out_b, lse_b)
    out, lse = unpack(answer, "out", "lse")
    for part, expected, what in (
        (out, torch.where(swap[:, None], out_b, out_a), "out"),
        (lse, torch.maximum(lse_a, lse_b), "lse"),
    ):
        assert_matches_formula(
            part,
            computed=functools.partial(lambda x: x, expected),
            truth=functools.partial(lambda x: x.double(), expected),
            what=f"{what} of the part that counts",
        )


@todo("10.2")
def test_an_empty_part_has_no_say(candidate: Any, draw: Draw) -> None:
    """Where all keys of a part are masked, its lse is −inf and its out does not count."""
    q, blocks = draw_parts(draw, [4, 7])
    (out_a, lse_a), (out_b, lse_b) = (parts.attended(q, k, v) for k, v in blocks)
    row = torch.arange(q.shape[2], device=q.device) % 4  # both count, b does, a does, neither
    nothing = torch.full_like(lse_a, -torch.inf)
    lse_a = torch.where((row == 1) | (row == 3), nothing, lse_a)
    lse_b = torch.where(row >= 2, nothing, lse_b)
    # What an empty part's out holds says nothing, however large it is.
    out_a = torch.where(lse_a.isneginf().unsqueeze(-1), draw.uniform(1e30, 1e38), out_a)
    out_b = torch.where(lse_b.isneginf().unsqueeze(-1), -draw.uniform(1e30, 1e38), out_b)
    out, lse = unpack(candidate.merge_attention(out_a, lse_a, out_b, lse_b), "out", "lse")
    for part, like, what in ((out, out_a, "out"), (lse, lse_a, "lse")):
        assert_like(part, like, what)
    sides = {"both parts": row == 0, "b alone": row == 1, "a alone": row == 2}

    def truth(which: Tensor, of: str) -> Tensor:
        a, b = (x.double().exp()[..., which].unsqueeze(-1) for x in (lse_a, lse_b))
        if of == "lse":
            return (a + b).log()[..., 0]
        one, other = (x.double()[..., which, :] for x in (out_a, out_b))
        return (a * one + b * other) / (a + b)

    for side, which in sides.items():
        for part, of in ((out[..., which, :], "out"), (lse[..., which], "lse")):
            exact = functools.partial(truth, which, of)
            assert_matches_formula(
                part,
                computed=lambda exact=exact: exact().float(),  # type: ignore[misc]  # a default has no type
                truth=exact,
                what=f"{of} where {side} counts",
            )

    def out_of_a() -> Tensor:
        return torch.where(row >= 3, torch.zeros(()), out_a.double().transpose(-2, -1))

    assert_matches_formula(
        out[..., row >= 2, :],
        computed=lambda: out_of_a().float().transpose(-2, -1)[..., row >= 2, :],
        truth=lambda: out_of_a().transpose(-2, -1)[..., row >= 2, :],
        what="out where b is empty, or both are",
    )
    assert_equals(
        out[..., row == 3, :],
        value=torch.zeros_like(out_a[..., row == 3, :]),
        what="out where both parts are empty",
    )
    assert_equals(
        lse[..., row == 3], value=nothing[..., row == 3], what="lse where both parts are empty"
    )


def lent_blocks(blocks: list[tuple[Tensor, Tensor]]) -> parts.Lent:
    """`blocks(j)`, which knows no negative numbers."""

    def block(j: Any) -> tuple[Tensor, Tensor]:
        if not 0 <= int(j) < len(blocks):
            raise IndexError(f"there is no block {int(j)}; there are {len(blocks)}")
        return blocks[int(j)]

    return parts.Lent("blocks", block)


def assert_fetched_once(blocks: parts.Lent, n: int) -> None:
    """Every block was asked for, none of them twice."""
    assert_equals(
        sorted(int(j) for j in blocks.calls), value=list(range(n)), what="the blocks fetched"
    )


CHUNKS: dict[str, Callable[[Draw], list[int]]] = {
    "equal blocks": lambda draw: [draw.integer(3, 6)] * draw.integer(3, 6),
    "a smaller last block": lambda draw: [8] * draw.integer(2, 5) + [draw.integer(1, 3)],
    "blocks of all sizes": lambda draw: draw.sample(range(1, 12), draw.integer(4, 6)),
    "one block": lambda draw: [draw.integer(5, 9)],
}


@todo("10.2", guards="blocks of one size and of many, a small last one, a single one")
@pytest.mark.parametrize("kind", CHUNKS)
def test_blocks_give_the_same_numbers(candidate: Any, draw: Draw, kind: str) -> None:
    """chunked_attention is Attention over all keys, and asks for each block once."""
    sizes = CHUNKS[kind](draw)
    batch, queries = (1, 1) if kind == "one block" else (draw.integer(1, 3), draw.integer(2, 7))
    q, pieces = draw_parts(draw, sizes, batch, queries=queries)
    blocks = lent_blocks(pieces)
    answer = candidate.chunked_attention(q, blocks, len(sizes))
    assert_fetched_once(blocks, len(sizes))
    assert_attended(answer, q, pieces)


@todo("10.2")
@HUGE
def test_blocks_with_extreme_scores(candidate: Any, draw: Draw, kind: str) -> None:
    """No score is raised as it is: the largest one so far is taken off before."""
    sizes = [draw.integer(3, 5), draw.integer(6, 8), draw.integer(1, 2)]
    q, pieces = draw_parts(draw, sizes, shift=draw_shift(draw, kind))
    assert_merged(candidate.chunked_attention(q, lent_blocks(pieces), 3), q, pieces)


@todo("10.2")
def test_the_largest_score_comes_late_or_early(candidate: Any, draw: Draw) -> None:
    """Each block's scores lie far above those before, or, for every other query, far below."""
    q, pieces = draw_parts(draw, [4, 5, 3], shift=1.0)
    steps = [draw.uniform(-40, -30), 0.0, draw.uniform(800, 900)]
    for (k, _), step in zip(pieces, steps, strict=True):
        k[..., -1] *= step
    assert_merged(candidate.chunked_attention(q, lent_blocks(pieces), 3), q, pieces)


NUMBER_OF_BLOCKS, BLOCK_KEYS, FEW_HEADS, KEY_SIZE, FEW_QUERIES = 32, 2048, 8, 16, 16
ONE_BLOCK = 2 * 4 * FEW_HEADS * BLOCK_KEYS * KEY_SIZE  # k and v in float32: 2 MB
CHUNKED_BUDGET = 9 * ONE_BLOCK  # 19 MB; all blocks are 67 MB, all scores 34 MB


@todo("10.2", again=False)  # what is remembered by its shapes fails above
def test_no_block_is_kept(candidate: Any, draw: Draw) -> None:
    """Keys and values together are far beyond the memory that this call may take."""
    q = 1.5 * draw.latents(1, FEW_HEADS, FEW_QUERIES, KEY_SIZE).cpu()
    shape = (1, FEW_HEADS, BLOCK_KEYS, KEY_SIZE)
    pieces = [
        (draw.latents(*shape).cpu(), draw.latents(*shape).cpu()) for _ in range(NUMBER_OF_BLOCKS)
    ]
    blocks = lent_blocks(pieces)
    with metered(candidate, budget=CHUNKED_BUDGET) as mine:
        answer = mine.chunked_attention(q, blocks, NUMBER_OF_BLOCKS)
    assert_fetched_once(blocks, NUMBER_OF_BLOCKS)
    assert_merged(answer, q, pieces)


# 10.3


def draw_tiles(draw: Draw, least: int, most: int) -> tuple[int, int]:
    """(tile, overlap) that AutoencoderKL keeps exactly, the overlap at most half a tile."""
    pairs = [
        (tile, overlap)
        for tile in range(least, most + 1)
        for overlap in range(2, tile // 2 + 1)
        if not parts.truncates(tile, overlap)
    ]
    return draw.choice(pairs)


def draw_sides(draw: Draw, kind: str, tile: int, overlap: int) -> tuple[int, int]:
    """Height and width of latents, so that something particular happens at their edges."""
    stride = tile - overlap
    rest = draw.integer(1, overlap - 1) if overlap > 1 else 0  # a last tile that is all overlap
    thin = stride * (tile // stride + draw.integer(1, 2)) + rest
    long = tile + stride * draw.integer(0, 1) + draw.integer(1, stride)
    if kind == "wide":
        return draw.integer(stride + 1, tile) if overlap else tile - 1, thin
    if kind == "tall":  # with no larger an area than a tile has
        return thin, draw.integer(1, max(1, min(stride, tile * tile // thin)))
    return (thin, long) if draw.choice([True, False]) else (long, thin)


TILED = ["both sides", "wide", "tall", "no overlap", "one of overlap", "more overlap than not"]
OTHERS = {"trained": "shipped", "factor 1": "one level", "factor 8": "four levels"}


@todo("10.3")
@pytest.mark.parametrize("kind", [*TILED, "one picture", *OTHERS])
def test_tiles_are_joined_as_the_library_joins_them(
    candidate: Any, draw: Draw, device: str, kind: str
) -> None:
    """tiled_decode is AutoencoderKL.tiled_decode: blended down, then to the right, then cropped."""
    name = OTHERS.get(kind, "tiny")
    large = kind in ("trained", "factor 8")  # few latents make many pixels there
    tile, overlap = draw_tiles(draw, 4, 5) if large else draw_tiles(draw, 5, 8)
    if kind == "no overlap":
        tile, overlap = draw.choice([1, 2, 4, 5, 6]), 0
    if kind == "one of overlap":
        tile, overlap = draw.integer(4, 6), 1
    if kind == "more overlap than not":
        tile, overlap = draw.choice([(7, 4), (8, 5), (9, 5)])
    height, width = draw_sides(draw, kind, tile, overlap)
    batch = 1 if large or kind == "one picture" else draw.integer(2, 3)
    latents = draw_for(draw, name, batch, height, width)
    assert_tiled(candidate, name, device, latents, tile, overlap)


def draw_for(draw: Draw, name: str, batch: int, height: int, width: int) -> Tensor:
    """Latents with as many channels as this VAE has."""
    return draw.latents(batch, parts.autoencoder(name).config.latent_channels, height, width)


def assert_tiled(
    candidate: Any, name: str, device: str, latents: Tensor, tile: int, overlap: int
) -> None:
    """The picture is AutoencoderKL's with tiling enabled, and so are the tiles it decoded."""
    vae, exact = parts.autoencoder(name, device), parts.exact_autoencoder(name, device)
    decode = lent_decoder(vae)
    answer = candidate.tiled_decode(decode, latents, tile, overlap, parts.upscale_of(vae))

    @functools.cache
    def library() -> tuple[Tensor, list[Tensor]]:
        return parts.tiled_by_library(vae, latents, tile, overlap)

    assert_matches(
        answer,
        library=lambda: library()[0],
        truth=lambda: parts.tiled(exact, latents.double(), tile, overlap),
        what=f"the picture from tiles of {tile} that overlap by {overlap}",
        agreement_ulps=VAE_ULPS,
    )
    assert_equals(
        sorted(shape_of(given) for given in decode.calls),
        library=lambda: sorted(shape_of(given) for given in library()[1]),
        what="the shapes that were decoded",
    )


def shape_of(given: Any) -> list[int]:
    return list(given.shape)


def lent_decoder(vae: Any) -> parts.Lent:
    """AutoencoderKL.decode as a function of the latents."""
    return parts.Lent("decode", functools.partial(parts.decoded, vae))


@todo("10.3")
@pytest.mark.parametrize("kind", ["smaller", "as high", "as wide", "as large"])
def test_what_fits_in_one_tile_is_decoded_whole(
    candidate: Any, draw: Draw, device: str, kind: str
) -> None:
    """Latents with no side above tile are decoded in one plain call, as AutoencoderKL does."""
    tile, overlap = draw_tiles(draw, 6, 9)
    sides = draw.sample(range(tile - overlap + 1, tile), 2) if overlap > 2 else [tile - 1, 3]
    height = tile if kind in ("as high", "as large") else sides[0]
    width = tile if kind in ("as wide", "as large") else sides[1]
    latents = draw_for(draw, "tiny", 2, height, width)
    vae, exact = parts.autoencoder("tiny", device), parts.exact_autoencoder("tiny", device)
    decode = lent_decoder(vae)
    answer = candidate.tiled_decode(decode, latents, tile, overlap, parts.upscale_of(vae))
    assert_matches(
        answer,
        library=lambda: parts.tiled_by_library(vae, latents, tile, overlap)[0],
        truth=lambda: parts.decoded(exact, latents.double()),
        what=f"the picture of latents {height} by {width} with tiles of {tile}",
        agreement_ulps=VAE_ULPS,
    )
    assert_equals(
        [shape_of(given) for given in decode.calls],
        value=[[*latents.shape]],
        what="the shapes that were decoded",
    )


@todo("10.3")
@pytest.mark.parametrize("pair", [(12, 5), (14, 9)])
def test_the_overlap_is_a_whole_number(
    candidate: Any, draw: Draw, device: str, pair: tuple[int, int]
) -> None:
    """Pairs where AutoencoderKL's share of the tile loses a pixel: here none is lost."""
    tile, overlap = pair
    stride = tile - overlap
    height, width = tile + stride + draw.integer(0, 1), tile + draw.integer(1, stride)
    latents = draw_for(draw, "tiny", 2, height, width)
    vae, exact = parts.autoencoder("tiny", device), parts.exact_autoencoder("tiny", device)
    answer = candidate.tiled_decode(
        lent_decoder(vae), latents, tile, overlap, parts.upscale_of(vae)
    )
    assert_matches_formula(
        answer,
        computed=lambda: parts.tiled(vae, latents, tile, overlap),
        truth=lambda: parts.tiled(exact, latents.double(), tile, overlap),
        what=f"the picture from tiles of {tile} that overlap by {overlap}",
    )


@todo("10.3")
@pytest.mark.parametrize("size", ["large latents", "small latents"])
@pytest.mark.parametrize("kind", ["larger", "equal"])
def test_tiles_that_do_not_move_on_are_refused(
    candidate: Any, draw: Draw, device: str, kind: str, size: str
) -> None:
    """An overlap of a whole tile or more is a ValueError, for latents of any size."""
    tile = draw.integer(4, 8)
    overlap = tile if kind == "equal" else tile + draw.integer(1, 3)
    height, width = (tile - 1, tile) if size == "small latents" else (tile + 3, tile + 1)
    decode = lent_decoder(parts.autoencoder("tiny", device))
    latents = draw_for(draw, "tiny", 2, height, width)
    assert_raises(
        lambda: candidate.tiled_decode(decode, latents, tile, overlap, 2),
        "ValueError",
        what=f"overlap {overlap} for tiles of {tile}, {size}",
    )


# 10.4


@todo("10.4")
@pytest.mark.parametrize("kind", ["tiny", "trained", "one picture", "two alike"])
def test_pictures_are_decoded_one_at_a_time(
    candidate: Any, draw: Draw, device: str, kind: str
) -> None:
    """sliced_decode is AutoencoderKL with slicing enabled: the same pictures, one in each call."""
    name = "shipped" if kind == "trained" else "tiny"
    vae, exact = parts.autoencoder(name, device), parts.exact_autoencoder(name, device)
    batch = 1 if kind == "one picture" else draw.integer(2, 5)
    height, width = draw.sample([4, 5, 6, 7], 2)
    latents = draw_for(draw, name, batch, height, width)
    if kind == "two alike":
        latents[-1] = latents[0]
    decode = lent_decoder(vae)
    answer = candidate.sliced_decode(decode, latents)
    assert_matches(
        answer,
        library=lambda: parts.sliced_by_library(vae, latents),
        truth=lambda: parts.decoded(exact, latents.double()),
        what="the pictures",
        agreement_ulps=VAE_ULPS,
    )
    assert_equals(
        [shape_of(given) for given in decode.calls],
        value=[[1, *latents.shape[1:]]] * batch,
        what="the shapes that were decoded",
    )


# 10.5


def draw_sizes(draw: Draw, names: list[str], calls: list[str], mode: str) -> dict[str, list[int]]:
    """Bytes of the leaves of each component, no two sums alike.

    The largest leaf of all is one that is never called, if there is one. They are as large as real
    ones, except where real tensors are made of them.
    """
    unit = 1 if mode == "sequential" else draw.integer(10**6, 10**7)
    sizes: dict[str, list[int]] = {}
    seen: set[int] = set()
    for name in names:
        leaves = [draw.integer(20, 900) for _ in range(draw.integer(1, 4))]
        if name not in calls:
            leaves.append(draw.integer(901, 1500))
        while sum(leaves) in seen:
            leaves.append(draw.integer(20, 900))
        seen.add(sum(leaves))
        sizes[name] = [unit * leaf for leaf in leaves]
    return sizes


def in_steps(draw: Draw, *names: str) -> list[str]:
    """These components, again and again."""
    return [*names] * draw.integer(2, 4)


def plain_run(draw: Draw) -> list[str]:
    return ["text_encoder", *in_steps(draw, "unet"), "vae"]


RUNS: dict[str, tuple[str, list[str], Callable[[Draw], list[str]]]] = {
    "in the chain's order": (
        "text_encoder->unet->vae",
        ["text_encoder", "unet", "vae"],
        plain_run,
    ),
    "image to image": (
        "text_encoder->image_encoder->unet->vae",
        ["vae", "text_encoder", "unet"],
        lambda draw: ["vae", *plain_run(draw)],
    ),
    "a component is missing": (
        "text_encoder->text_encoder_2->image_encoder->unet->vae",
        ["text_encoder", "text_encoder_2", "unet", "vae"],
        lambda draw: ["text_encoder", "text_encoder_2", *in_steps(draw, "unet"), "vae"],
    ),
    "one outside the chain": (
        "text_encoder->unet->vae",
        ["controlnet", "text_encoder", "unet", "vae"],
        lambda draw: ["text_encoder", *in_steps(draw, "controlnet", "unet"), "vae"],
    ),
    "two runs": (
        "text_encoder->unet->vae",
        ["text_encoder", "safety_checker", "unet", "vae"],
        lambda draw: [*plain_run(draw), "safety_checker", *plain_run(draw)],
    ),
    "one is never called": (
        "text_encoder->image_encoder->unet->vae",
        ["text_encoder", "image_encoder", "unet", "vae", "feature_net"],
        plain_run,
    ),
    "a chain of one": (
        "unet",
        ["vae", "unet", "text_encoder"],
        lambda draw: [*plain_run(draw), "unet"],
    ),
    "two in a row are missing": (
        "text_encoder->text_encoder_2->image_encoder->unet->vae",
        ["text_encoder", "unet", "vae"],
        plain_run,
    ),
    "the first is missing": (
        "image_encoder->text_encoder->unet->vae",
        ["text_encoder", "unet", "vae"],
        plain_run,
    ),
    "names inside names": (
        "text_encoder_2->unet->vae",
        ["text_encoder", "text_encoder_2", "net", "unet", "vae"],
        lambda draw: ["text_encoder_2", *in_steps(draw, "net", "unet"), "text_encoder", "vae"],
    ),
    "nothing of the chain": ("prior->decoder", ["text_encoder", "unet", "vae"], plain_run),
    "in no order": (
        "a->b->c->d",
        ["c", "a", "x", "d", "b", "y"],
        lambda draw: [draw.choice(["a", "b", "c", "d", "x", "y"]) for _ in range(12)],
    ),
}


@todo("10.5")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("mode", ["none", "model", "sequential"])
def test_a_plan_is_what_the_hooks_do(candidate: Any, draw: Draw, mode: str, run: str) -> None:
    """Peak and traffic are those of accelerate's hooks on components of these sizes."""
    chain, names, calls_of = RUNS[run]
    calls = calls_of(draw)
    sizes = draw_sizes(draw, names, calls, mode)
    bus = hooked(mode, sizes, chain, calls)
    capacity = bus.peak + draw.choice([-1, 0, 1, -bus.peak // 2, bus.peak])
    answer = candidate.offload_plan(sizes, chain, calls, capacity)
    assert_equals(
        plan_of(answer, mode),
        library=lambda: hooked(mode, sizes, chain, calls).told(capacity),
        what=f'the plan "{mode}" for the calls {", ".join(calls)}',
    )
    assert_equals(sorted(answer), value=["model", "none", "sequential"], what="the plans")


def plan_of(answer: Any, mode: str) -> Any:
    """One plan of an answer; the answer itself, if it holds no plans."""
    return answer.get(mode) if isinstance(answer, dict) else answer


def hooked(mode: str, sizes: dict[str, list[int]], chain: str, calls: list[str]) -> parts.Bus:
    """The bus after these calls."""
    if mode == "model":
        return parts.model_offload(sizes, chain, calls)
    if mode == "sequential":
        return parts.sequential_offload(sizes, calls)
    bus = parts.Bus()
    for leaves in sizes.values():
        parts.Stub(sum(leaves), bus).to("cuda:0")
    return bus


@todo("10.5", guards="capacities that are the peak, and a byte less")
@pytest.mark.parametrize("mode", ["none", "model", "sequential"])
def test_a_peak_as_large_as_the_device_fits(candidate: Any, draw: Draw, mode: str) -> None:
    """A plan fits when its peak is the capacity, and does not when it is a byte more."""
    chain, names, calls_of = RUNS["image to image"]
    calls = calls_of(draw)
    sizes = draw_sizes(draw, names, calls, mode)
    peak = hooked(mode, sizes, chain, calls).peak
    for capacity in (peak, peak - 1):
        answer = candidate.offload_plan(sizes, chain, calls, capacity)
        assert_equals(
            plan_of(answer, mode),
            library=lambda capacity=capacity: (  # type: ignore[misc]  # a default has no type
                hooked(mode, sizes, chain, calls).told(capacity)
            ),
            what=f'the plan "{mode}" with a peak of {peak} for a capacity of {capacity}',
        )


# 10.6


DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
NAMES = ["unet", "transformer", "vae", "text_encoder", "text_encoder_2", "controlnet"]


def config_of(
    network: str, vae: str, attention: str, guidance: bool, **more: int
) -> dict[str, Any]:
    """The settings of a pipeline of this UNet and this VAE."""
    shipped = network == "shipped"
    module = parts.autoencoder(vae)
    return {
        "vae_scale": parts.upscale_of(module),
        "attention_downsample": 1 if shipped else 2,
        "heads": parts.unet(network).config.attention_head_dim,
        "guidance": guidance,
        "attention": attention,
        "vae_block_out_channels": list(module.config.block_out_channels),
        **more,
    }


NETWORKS = [("shipped", "shipped"), ("tiny", "three levels")]


@todo("10.6", guards="what is seen in real networks, to the byte")
@pytest.mark.parametrize("guidance", [False, True], ids=["plain", "guidance"])
@pytest.mark.parametrize("attention", ["full", "sliced"])
@pytest.mark.parametrize(("network", "vae"), NETWORKS, ids=["trained", "tiny"])
def test_the_large_tensors_are_those_of_a_real_run(
    candidate: Any, draw: Draw, network: str, vae: str, attention: str, guidance: bool
) -> None:
    """Scores and decoder are the largest tensors seen in UNet2DConditionModel and AutoencoderKL."""
    slice_size, dtype = draw.integer(1, 2), draw.choice(DTYPES)
    config = config_of(network, vae, attention, guidance, slice_size=slice_size, chunk=7)
    modules = {"unet": parts.unet(network), "vae": parts.autoencoder(vae)}
    counts = {name: parts.parameter_count(module) for name, module in modules.items()}
    batch = draw.integer(1, 3)
    rows = 2 * batch if guidance else batch
    height, width = draw.sample([6, 8, 10, 12], 2)
    scale = config["vae_scale"]
    answer = candidate.bytes_needed(counts, dtype, batch, height * scale, width * scale, config)

    def library() -> dict[str, int]:
        sliced = slice_size if attention == "sliced" else None
        numbers = {
            "weights": sum(counts.values()),
            "scores": parts.largest_scores(network, rows, height, width, sliced),
            "decoder": parts.largest_in_decoder(vae, batch, height, width),
        }
        return {name: number * torch.finfo(dtype).bits // 8 for name, number in numbers.items()}

    assert_equals(answer, library=library, what=f"the bytes of a run in {dtype}")


@todo("10.6", guards="chunks, and pictures too large to be decoded here")
@pytest.mark.parametrize("guidance", [False, True], ids=["plain", "guidance"])
@pytest.mark.parametrize("attention", ["chunked", "sliced", "full"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_of_pipelines_too_large_to_run(
    candidate: Any, draw: Draw, dtype: torch.dtype, attention: str, guidance: bool
) -> None:
    """The same three numbers for pictures of up to 2048 pixels a side, whole to the byte."""
    scale, downsample = draw.choice([(8, 1), (8, 2), (4, 2), (16, 1)])
    height, width = (64 * n for n in draw.sample(range(6, 32), 2))
    batch, heads = draw.integer(1, 4), draw.choice([5, 8, 10])
    chunk, slice_size = draw.integer(100, 900), draw.integer(1, heads)
    counts = {name: draw.integer(10**7, 10**9) for name in draw.sample(NAMES, draw.integer(3, 5))}
    channels = [128, draw.choice([192, 256, 320]), 512, 640]
    config = {
        "vae_scale": scale,
        "attention_downsample": downsample,
        "heads": heads,
        "guidance": guidance,
        "attention": attention,
        "slice_size": slice_size,
        "chunk": chunk,
        "vae_block_out_channels": channels,
    }
    answer = candidate.bytes_needed(counts, dtype, batch, height, width, config)
    rows = batch * (2 if guidance else 1)
    n = height * width // (scale * downsample) ** 2
    scores = {
        "full": rows * heads * n * n,
        "sliced": slice_size * n * n,
        "chunked": rows * heads * n * chunk,
    }
    size = torch.finfo(dtype).bits // 8
    assert_equals(
        answer,
        value={
            "weights": size * sum(counts.values()),
            "scores": size * scores[attention],
            "decoder": size * batch * channels[1] * height * width,
        },
        what=f"the bytes of a batch of {batch}, {height} by {width} pixels, in {dtype}",
    )


@todo("10.6", guards="settings without the number that only another kind of attention needs")
@pytest.mark.parametrize("attention", ["full", "sliced", "chunked"])
def test_only_the_settings_of_its_kind_are_needed(
    candidate: Any, draw: Draw, attention: str
) -> None:
    """A pipeline with full attention has no slice_size and no chunk, one with slices no chunk."""
    number = {"full": {}, "sliced": {"slice_size": 3}, "chunked": {"chunk": 50}}[attention]
    config = config_of("tiny", "tiny", attention, guidance=True) | number
    height, width, batch = 4 * draw.integer(5, 9), 4 * draw.integer(10, 14), draw.integer(2, 3)
    answer = candidate.bytes_needed({"unet": 100}, torch.float32, batch, height, width, config)
    n, heads = height * width // 16, config["heads"]
    scores = {"full": 2 * batch * heads * n, "sliced": 3 * n, "chunked": 2 * batch * heads * 50}
    assert_equals(
        answer,
        value={
            "weights": 400,
            "scores": 4 * n * scores[attention],
            "decoder": 4 * batch * config["vae_block_out_channels"][1] * height * width,
        },
        what=f"the bytes with {attention} attention",
    )


@todo("10.6")
@pytest.mark.parametrize("name", ["flash", "", "Full", "slice", "chunk", "chunked "])
def test_an_unknown_attention_is_refused(candidate: Any, draw: Draw, name: str) -> None:
    """Another kind of attention is a ValueError."""
    config = config_of("tiny", "tiny", name, draw.choice([True, False]), slice_size=1, chunk=8)
    assert_raises(
        lambda: candidate.bytes_needed({"unet": 9}, torch.float32, 2, 32, 64, config),
        "ValueError",
        what=f"the attention {name!r}",
    )


# 10.7


NAMED = ("offload", "chunked attention", "tiled decode", "sliced decode")
REMEDIES = dict(zip(("weights", "scores", "activations", "batch"), NAMED, strict=True))
STAGES = ["load", "encode", "denoise", "decode", "output"]


PLACES = ["first", "in the middle", "last"]


def draw_events(
    draw: Draw, largest: str, place: str = "in the middle"
) -> list[tuple[str, str, int]]:
    """Events of all kinds, several of each stage, of which one of this kind is the largest."""
    sizes = draw.sample(range(1000, 9000), 8)
    kinds = [*REMEDIES, *(draw.choice([*REMEDIES]) for _ in range(3))]
    events = [(draw.choice(STAGES), kind, size) for kind, size in zip(kinds, sizes, strict=False)]
    owner = (draw.choice(STAGES), largest, max(sizes) + 1)
    mixed = draw.sample(events, len(events))
    at = {"first": 0, "last": len(mixed)}.get(place, draw.integer(1, len(mixed) - 1))
    mixed.insert(at, owner)
    return mixed


@todo("10.7", guards="every kind as the owner, in any place of the record")
@pytest.mark.parametrize("kind", REMEDIES)
@pytest.mark.parametrize("place", PLACES)
def test_the_largest_event_owns_the_peak(candidate: Any, draw: Draw, kind: str, place: str) -> None:
    """Its stage, its bytes, and the technique that makes its kind smaller."""
    events = draw_events(draw, kind, place)
    stage, _, size = max(events, key=lambda event: event[2])
    answer = candidate.peak_owner(events)
    assert_equals(answer, value=(stage, size, REMEDIES[kind]), what="the owner of the peak")


@todo("10.7", guards="a record of one event, and events of no bytes")
@pytest.mark.parametrize("kind", REMEDIES)
def test_a_short_or_an_empty_run_has_an_owner_too(candidate: Any, draw: Draw, kind: str) -> None:
    """One event owns the peak alone; of several without bytes the first does."""
    stage, size = draw.choice(STAGES), draw.integer(1, 10**9)
    answer = candidate.peak_owner([(stage, kind, size)])
    assert_equals(answer, value=(stage, size, REMEDIES[kind]), what="the owner of one event")
    nothing = [(stage, kind, 0), *((draw.choice(STAGES), other, 0) for other in REMEDIES)]
    answer = candidate.peak_owner(nothing)
    assert_equals(answer, value=(stage, 0, REMEDIES[kind]), what="the owner of no bytes")


@todo("10.7", guards="two events of the most bytes, of two kinds and stages")
@pytest.mark.parametrize("kind", REMEDIES)
def test_of_equal_peaks_the_first_counts(candidate: Any, draw: Draw, kind: str) -> None:
    """The event that reaches the peak first owns it."""
    events = draw_events(draw, kind)
    stage, _, size = max(events, key=lambda event: event[2])
    other = draw.choice([other for other in REMEDIES if other != kind])
    later = draw.choice([later for later in STAGES if later != stage])
    answer = candidate.peak_owner([*events, (later, other, size)])
    assert_equals(answer, value=(stage, size, REMEDIES[kind]), what="the owner of the peak")


@todo("10.7")
@pytest.mark.parametrize("kind", ["no event", "the largest", "a small one", "a small last one"])
def test_what_cannot_be_judged_is_refused(candidate: Any, draw: Draw, kind: str) -> None:
    """No events, or one of an unknown kind, is a ValueError."""
    events = draw_events(draw, "scores")
    size = 10**6 if kind == "the largest" else 1
    at = len(events) if kind == "a small last one" else draw.integer(0, 3)
    events.insert(at, ("decode", draw.choice(["gradients", "cache"]), size))
    given = [] if kind == "no event" else events
    assert_raises(lambda: candidate.peak_owner(given), "ValueError", what=f"{len(given)} events")
