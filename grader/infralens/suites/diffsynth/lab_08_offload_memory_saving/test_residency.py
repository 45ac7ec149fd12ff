"""Lab 08 of diffsynth: the learner's schedules, codes and caches against the hooks of diffusers."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_agrees,
    assert_equals,
    assert_form,
    assert_matches,
    assert_number,
    assert_raises,
    assert_tensor,
    recorded,
    todo,
    unpack,
)
from infralens.suites.diffsynth.lab_08_offload_memory_saving import live

# 8.1


@functools.lru_cache
def family_tree(kind: str, blocks: int) -> tuple[tuple[str, str, int], ...]:
    return tuple(live.tree(live.network(kind, blocks)))


@functools.lru_cache
def family_groups(kind: str, blocks: int, level: str, per: int) -> dict[str, int]:
    return live.groups(live.network(kind, blocks), level, per)


@todo("8.1", guards="the trees of real networks", again=False)
@pytest.mark.parametrize("kind", ["wan", "unet"])
def test_groups_are_those_of_a_network(candidate: Any, draw: Draw, kind: str) -> None:
    """A transformer's and a UNet's groups are those of apply_group_offloading, to the byte."""
    blocks = 5 if kind == "wan" else 3
    for level, per in (("block_level", draw.choice([1, 2])), ("leaf_level", 1)):
        assert_equals(
            candidate.offload_groups(family_tree(kind, blocks), level, per),
            library=functools.partial(family_groups, kind, blocks, level, per),
            what=f"the groups of a {kind} of {blocks} levels at {level}, {per} a group",
        )


@todo("8.1")
@pytest.mark.parametrize("level", ["block_level", "leaf_level"])
def test_groups_of_a_drawn_network(candidate: Any, draw: Draw, level: str) -> None:
    """All kinds of leaves, both kinds of lists, and parameters at every level find their group."""
    widths = draw.sample(range(2, 12), 3)
    blocks = draw.choice([7, 11, 13])
    for per in (3, 5) if level == "block_level" else (2,):
        tree = live.tree(live.sketch(widths, blocks))
        assert_equals(
            candidate.offload_groups(tree, level, per),
            library=lambda per=per: live.groups(live.sketch(widths, blocks), level, per),  # type: ignore[misc]
            what=f"the groups at {level}, {per} a group of {blocks}",
        )


@todo("8.1", guards="what cannot be grouped")
def test_groups_that_cannot_be_are_an_error(candidate: Any, draw: Draw) -> None:
    """Another level, or groups of no block, raise ValueError."""
    tree = [("", "Net", 8), ("blocks", "ModuleList", 0), ("blocks.0", "Linear", draw.integer(4, 9))]
    for level, per in (
        (draw.choice(["block", "model_level", "leaf"]), 1),
        ("block_level", -draw.integer(0, 2)),
        ("leaf_level", -draw.integer(0, 2)),
    ):
        assert_raises(
            lambda level=level, per=per: candidate.offload_groups(tree, level, per),  # type: ignore[misc]
            "ValueError",
            what=f"groups of {per} at {level}",
        )


# 8.2


def draw_groups(draw: Draw, count: int) -> tuple[int, list[int], list[int]]:
    """The root's bytes, those of each block, and an order in which blocks are run."""
    own = draw.integer(100, 200)
    sizes = draw.sample(range(20, 100), count)
    order = list(range(count))
    while order == sorted(order):
        order = draw.sample(range(count), count)
    return own, sizes, order


def named(own: int, sizes: Sequence[int]) -> dict[str, int]:
    return {"": own, **{f"blocks.{i}": n for i, n in enumerate(sizes)}}


@todo("8.2")
@pytest.mark.parametrize(
    ("prefetch", "first"), [(False, True), (False, False), (True, True), (True, False)]
)
def test_groups_come_and_go_as_the_hooks_let_them(
    candidate: Any, draw: Draw, prefetch: bool, first: bool
) -> None:
    """Events, peak and bytes of a pass are those of diffusers' hooks, in any order of blocks."""
    for count in (draw.integer(4, 6), 2):
        own, sizes, order = draw_groups(draw, count)
        assert_equals(
            candidate.group_events(
                named(own, sizes), [f"blocks.{i}" for i in order], prefetch, first
            ),
            library=functools.partial(live.one_pass, own, sizes, order, prefetch, first),
            what=f"{count} groups, prefetch {prefetch}, the first pass {first}",
        )


@todo("8.2", guards="few groups and unused ones")
def test_few_groups_and_unused_ones(candidate: Any, draw: Draw) -> None:
    """Without a group to run the root alone comes and goes; what is not run does not come."""
    own, unused, used = draw.sample(range(10, 99), 3)
    groups = {"": own, "a": unused, "b": used}
    for prefetch in (True, False):
        assert_equals(
            candidate.group_events(groups, [], prefetch, False),
            value={"events": [("on", ""), ("off", "")], "peak": own, "moved": own},
            what="a pass that runs no group",
        )
        events = [("on", ""), ("on", "b"), ("off", "b"), ("off", "")]
        assert_equals(
            candidate.group_events(groups, ["b"], prefetch, False),
            value={"events": events, "peak": own + used, "moved": own + used},
            what="a pass that runs one group of two",
        )


def other_seconds(copy: Sequence[float], compute: Sequence[float]) -> list[float]:
    """What a pass takes, rightly first, and when copies hide behind something else than they do."""
    ahead = [*copy[1:], 0.0]
    here = done = 0.0
    for came, ran in zip(copy, compute, strict=True):
        here += came
        done = max(done, here) + ran
    turns = [max(pair) for pair in zip(compute, ahead, strict=True)]
    own = sum(max(pair) for pair in zip(compute, copy, strict=True))
    alone = [sum(copy), sum(compute)]
    right = copy[0] + sum(turns)
    return [right, own, max(alone), sum(alone), sum(turns), right - turns[-1], done]


def draw_seconds(draw: Draw, count: int) -> tuple[list[float], list[float]]:
    """Copies and runs in eighths, so that sums are exact, for which every mistake has its own."""
    while True:
        copy, compute = ([n / 8 for n in draw.sample(range(8, 90), count)] for _ in range(2))
        seconds = other_seconds(copy, compute)
        if len(set(seconds)) == len(seconds):
            return copy, compute


def assert_seconds(answer: Any, library: Callable[[], float], what: str) -> None:
    """So many seconds, as a whole number or not."""
    assert_number(answer, what=what)
    assert_equals(float(answer), library=library, what=what)


@todo("8.2")
def test_copies_hide_behind_the_group_before(candidate: Any, draw: Draw) -> None:
    """The time of a pass is that of playing diffusers' events, with one copy at a time."""
    for count in (draw.integer(5, 7), 4, 1, 0):
        copy, compute = (part[:count] for part in draw_seconds(draw, max(count, 4)))
        events = live.passes(9, [1] * count, range(count), True, 2)[-1]
        assert_seconds(
            candidate.overlapped_seconds(copy, compute),
            functools.partial(live.seconds, copy, compute, events),
            f"the seconds of {count} groups",
        )


# 8.3

DEFAULT = ("pos_embed", "patch_embed", "norm", "^proj_in$", "^proj_out$")
PATTERNS = (DEFAULT, ("attn1$", "attn$"), ("^blocks$", "^down_blocks$"), ("blocks.0",), ())


@functools.lru_cache
def family_narrow(kind: str, patterns: tuple[str, ...]) -> list[str]:
    return sorted(live.narrow(live.network(kind, 2), patterns))


def assert_names(answer: Any, library: Any, what: str) -> None:
    """The names, in any order."""
    assert_form(answer, ["str"], what=what)
    assert_equals(sorted(answer), library=library, what=what)


@todo("8.3", guards="the names of real networks", again=False)
@pytest.mark.parametrize("kind", ["wan", "unet", "flux"])
def test_narrow_modules_are_those_of_a_network(candidate: Any, draw: Draw, kind: str) -> None:
    """What is stored narrow is what apply_layerwise_casting makes so, for each set of patterns."""
    modules = [(name, type_) for name, type_, _ in family_tree(kind, 2)]
    for patterns in PATTERNS:
        assert_names(
            candidate.cast_names(modules, patterns),
            functools.partial(family_narrow, kind, patterns),
            f"the narrow modules of a {kind} with {list(patterns)}",
        )


@todo("8.3", guards="names and kinds that no family has")
def test_narrow_modules_of_a_drawn_network(candidate: Any, draw: Draw) -> None:
    """Every kind of leaf is narrow; a pattern counts anywhere in a name and above it."""
    widths, blocks = draw.sample(range(2, 12), 3), draw.integer(3, 5)
    block = draw.integer(0, blocks - 1)
    tree = [(name, kind) for name, kind, _ in live.tree(live.sketch(widths, blocks))]
    for patterns in (
        DEFAULT,
        (),
        (rf"^blocks\.{block}$", r"^stem\.2"),
        (draw.choice(["parts$", r"\.parts$"]), draw.choice(["e$", "^words|^up"])),
        (draw.choice([r"\d$", r"parts\.[02]"]),),
    ):
        assert_names(
            candidate.cast_names(tree, patterns),
            lambda patterns=patterns: sorted(live.narrow(live.sketch(widths, blocks), patterns)),
            f"the narrow modules with {list(patterns)}",
        )


def narrow_truth(x: Tensor, weight: Tensor, bias: Tensor | None, storage: str) -> Tensor:
    """The product in float64, of weights that have lost their digits."""
    kept = weight.to(getattr(torch, storage)).to(x.dtype).double()
    product = x.double() @ kept.T
    return product if bias is None else product + bias.to(getattr(torch, storage)).to(x.dtype)


@todo("8.3")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("storage", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_a_narrow_layer_computes_in_the_dtype_of_its_input(
    candidate: Any, draw: Draw, storage: str, dtype: torch.dtype
) -> None:
    """A Linear under diffusers' casting hook: weight and bias lose digits, x does not."""
    wide, out = draw.sample(range(5, 12), 2)
    x = draw.latents(2, 3, wide, dtype=dtype)
    weight = draw.latents(out, wide)
    bias = draw.latents(out)
    for some in (bias, None):
        assert_matches(
            candidate.cast_linear(x, weight, some, storage),
            library=lambda some=some: live.narrow_linear(x, weight, some, storage),  # type: ignore[misc]
            truth=lambda some=some: narrow_truth(x, weight, some, storage),  # type: ignore[misc]
            what=f"a layer stored in {storage}{'' if some is bias else ', without a bias'}",
        )


# 8.4


def draw_weight(draw: Draw, bits: int, rows: int, groups: int, group: int) -> Tensor:
    """A weight whose codes are beyond doubt: none lies near the middle between two.

    Each group has its own size, one of them twenty times the others, and its largest number.
    """
    q = 2 ** (bits - 1) - 1
    codes = draw.tensor(rows, groups, group, low=-q, high=q).round()
    weight = (codes + draw.tensor(rows, groups, group, low=-0.4, high=0.4)).clamp(-q, q)
    for row, column in itertools.product(range(rows), range(groups)):
        weight[row, column, draw.integer(0, group - 1)] = draw.choice([-q, q])
    sizes = draw.tensor(rows, groups, 1, low=0.5, high=1.5)
    sizes[draw.integer(0, rows - 1), draw.integer(0, groups - 1)] *= 20
    return (weight * sizes).flatten(1)


def groups_of(weight: Tensor, group: int) -> Tensor:
    return weight.reshape(len(weight), -1, group)


def scales_of(weight: Tensor, bits: int, group: int) -> Tensor:
    scales: Tensor = groups_of(weight, group).abs().amax(-1) / (2 ** (bits - 1) - 1)
    return scales


def quantized_by_torch(weight: Tensor, bits: int, group: int) -> Tensor:
    """The weight after torch has rounded it to codes and back, a channel for each group."""
    scales = scales_of(weight, bits, group).flatten()
    channels = groups_of(weight, group).flatten(0, 1)
    q = 2 ** (bits - 1) - 1
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    rounded = torch.fake_quantize_per_channel_affine(
        channels, torch.where(scales == 0, 1, scales), zeros, 0, -q - 1, q
    )
    return rounded.reshape(weight.shape)


def codes_by_torch(weight: Tensor, bits: int, group: int) -> Tensor:
    scales = scales_of(weight, bits, group)[..., None]
    rounded = groups_of(quantized_by_torch(weight, bits, group), group)
    return (rounded / torch.where(scales == 0, 1, scales)).round().flatten(1).to(torch.int8)


def assert_quantized(candidate: Any, weight: Tensor, bits: int, group: int) -> None:
    """Codes and scales of a weight."""
    answer = candidate.quantize(weight, bits, group)
    codes, scales = unpack(answer, "codes", "scales")
    assert_equals(
        codes,
        library=lambda: codes_by_torch(weight, bits, group),
        what=f"the codes of {bits} bits in groups of {group}",
    )
    assert_matches(
        scales,
        library=lambda: scales_of(weight, bits, group),
        truth=lambda: scales_of(weight.double(), bits, group),
        what=f"the scales of {bits} bits in groups of {group}",
    )


@todo("8.4", guards="weights as a network has them")
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_codes_are_those_that_torch_rounds_to(candidate: Any, draw: Draw, bits: int) -> None:
    """Codes and scales are those of torch's rounding, with a channel for each group of a row."""
    rows, groups = draw.sample(range(2, 6), 2)
    group = draw.integer(6, 9)
    for count in (groups, 1):
        assert_quantized(candidate, draw_weight(draw, bits, rows, count, group), bits, group)


@todo("8.4", guards="numbers between two codes, and groups of zeros")
def test_halves_and_zeros(candidate: Any, draw: Draw) -> None:
    """Halves go to the even code; a group of zeros has codes and scale 0."""
    # One of each kind: up, down, to zero and away from it each go wrong with two of the four.
    kinds = [(-6, -4, -2), (-5, -3, -1), (0, 2, 4), (1, 3, 5)]
    numbers = [draw.choice(kind) for kind in [*kinds, range(-6, 6)]]
    halves = [n + 0.5 for n in draw.sample(numbers, 5)]
    for size, group in ((1.0, 6), (draw.choice([0.25, 2.0, 4.0]), draw.choice([6, 3, 2]))):
        weight = size * torch.tensor([[7.0, *halves], [0.0] * 6, [*reversed(halves), -7.0]])
        assert_quantized(candidate, weight, 4, group)


@todo("8.4")
def test_codes_times_their_scales(candidate: Any, draw: Draw) -> None:
    """dequantize gives the weight that torch's rounding leaves, in float32."""
    for bits in (3, 8):
        rows, groups = draw.sample(range(2, 6), 2)
        group = draw.integer(6, 9)
        weight = draw_weight(draw, bits, rows, groups, group)
        codes, scales = codes_by_torch(weight, bits, group), scales_of(weight, bits, group)
        assert_matches(
            candidate.dequantize(codes, scales),
            library=lambda w=weight, b=bits, g=group: quantized_by_torch(w, b, g),  # type: ignore[misc]
            truth=lambda c=codes, s=scales, g=group: (  # type: ignore[misc]
                (groups_of(c, g).double() * s.double()[..., None]).flatten(1)
            ),
            what=f"the weight of {bits} bits in groups of {group}",
        )


@todo("8.4", guards="what cannot be quantized")
def test_groups_and_bits_that_cannot_be_are_errors(candidate: Any, draw: Draw) -> None:
    """A group that does not divide, or bits outside 2 to 8, raise ValueError."""
    weight = draw.latents(3, 12)
    for bits, group in ((4, draw.choice([5, 7, 8])), (1, 4), (draw.integer(9, 16), 4), (4, 0)):
        assert_raises(
            lambda bits=bits, group=group: candidate.quantize(weight, bits, group),  # type: ignore[misc]
            "ValueError",
            what=f"{bits} bits in groups of {group}",
        )


# 8.5

WIDTHS = {"Q8_0": 34, "Q4_0": 18, "Q4_1": 20}


def draw_blocks(draw: Draw, kind: str, count: int) -> Tensor:
    """Random codes behind scales (and minima) of moderate size."""
    start = 4 if kind == "Q4_1" else 2
    halves = draw.tensor(count, start // 2, low=0.5, high=2.0)
    signs = draw.tensor(count, start // 2, low=-1.0, high=1.0).sign()
    head = (halves * signs).to(torch.float16).view(torch.uint8)
    codes = draw.tensor(count, WIDTHS[kind] - start, low=0.0, high=255.99).to(torch.uint8)
    return torch.cat([head, codes], dim=1)


def gguf_truth(blocks: Tensor, kind: str) -> Tensor:
    """Each weight in float64, one by one."""
    start = 4 if kind == "Q4_1" else 2
    rows = []
    for block in blocks:
        halves = block[:start].clone().view(torch.float16).double().tolist()
        data = [int(byte) for byte in block[start:]]
        if kind == "Q8_0":
            row = [halves[0] * (byte - 256 * (byte > 127)) for byte in data]
        else:
            codes = [byte % 16 for byte in data] + [byte // 16 for byte in data]
            offset = halves[1] if kind == "Q4_1" else -8 * halves[0]
            row = [halves[0] * code + offset for code in codes]
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


@todo("8.5")
@pytest.mark.parametrize("kind", list(WIDTHS))
def test_blocks_are_read_as_the_quantizer_reads_them(candidate: Any, draw: Draw, kind: str) -> None:
    """The 32 weights of each block, as diffusers' gguf quantizer computes them in float32."""
    blocks = draw_blocks(draw, kind, draw.integer(3, 6))
    assert_matches(
        candidate.read_gguf(blocks, kind),
        library=lambda: live.gguf(kind)(blocks, 32, WIDTHS[kind], torch.float32),
        truth=lambda: gguf_truth(blocks, kind),
        what=f"the weights of {kind}",
    )


@todo("8.5", guards="another file")
def test_blocks_of_another_kind_or_width_are_errors(candidate: Any, draw: Draw) -> None:
    """Another kind, or a row that is not as wide as its kind's blocks, raises ValueError."""
    kind, other = draw.sample(list(WIDTHS), 2)
    for blocks, name in (
        (draw_blocks(draw, kind, 3), draw.choice(["Q5_0", "Q6_K", "F16"])),
        (draw_blocks(draw, kind, 3), other),
    ):
        assert_raises(
            lambda blocks=blocks, name=name: candidate.read_gguf(blocks, name),  # type: ignore[misc]
            "ValueError",
            what=f"blocks of {blocks.shape[1]} bytes as {name}",
        )


# 8.6

BRANCHES = ("cond", "uncond")


Decide = Callable[[Tensor, Tensor], Tensor]  # how far the first is from the second, row by row
MEASURES: dict[str, tuple[str, Decide]] = {
    "right": ("residual", lambda new, old: (new - old).abs().mean(-1) / old.abs().mean(-1)),
    "outputs": ("output", lambda new, old: (new - old).abs().mean(-1) / old.abs().mean(-1)),
    "inputs": ("input", lambda new, old: (new - old).abs().mean(-1) / old.abs().mean(-1)),
    "by the new": ("residual", lambda new, old: (new - old).abs().mean(-1) / new.abs().mean(-1)),
    "absolute": ("residual", lambda new, old: (new - old).abs().mean(-1)),
    "each": ("residual", lambda new, old: ((new - old).abs() / old.abs()).mean(-1)),
}
"""By what a call may be compared with one before, the right way and those that are mistaken."""


def draw_calls(draw: Draw, steps: int) -> list[dict[str, Any]]:
    """Two branches whose inputs drift, at first slowly and then faster."""
    batch, tokens = draw.sample(range(2, 5), 2)
    starts = [draw.latents(batch, tokens, live.WIDTH) for _ in BRANCHES]
    ways = [draw.latents(batch, tokens, live.WIDTH) for _ in BRANCHES]
    speed = draw.uniform(0.008, 0.03)
    return [
        {"branch": branch, "x": start + way * speed * (1 + 0.5 * k) * i**1.6}
        for i in range(steps)
        for k, (branch, start, way) in enumerate(zip(BRANCHES, starts, ways, strict=True))
    ]


def distances(calls: Sequence[dict[str, Any]]) -> dict[str, list[list[float]]]:
    """Of each call from each other, by every measure, in float64."""
    block = live.blocks(1)[0]
    x = torch.cat([call["x"] for call in calls])
    y = block(x)
    rows = {
        name: values.double().reshape(len(calls), -1)
        for name, values in (("input", x), ("output", y), ("residual", y - x))
    }
    return {
        name: measure(rows[of][:, None], rows[of][None]).tolist()
        for name, (of, measure) in MEASURES.items()
    }


def decided(
    calls: Sequence[dict[str, Any]],
    far: Sequence[Sequence[float]],
    threshold: float,
    *,
    previous: bool = False,
    shared: bool = False,
) -> tuple[tuple[bool, ...], list[float]]:
    """In which calls all blocks are run, and the ratios by which that was decided."""
    kept: dict[str, int] = {}
    run, ratios = [], []
    for i, call in enumerate(calls):
        branch = "" if shared else call["branch"]
        before = kept.get(branch)
        if before is not None:
            ratios.append(far[i][before])
        run.append(before is None or far[i][before] > threshold)
        if run[-1] or previous:
            kept[branch] = i
    return tuple(run), ratios


def draw_case(draw: Draw) -> tuple[list[dict[str, Any]], float]:
    """Calls and a threshold that no ratio comes near, under which every mistake shows."""
    for _ in range(60):
        calls = draw_calls(draw, 12)
        with torch.no_grad():
            far = distances(calls)
        for _ in range(40):
            threshold = draw.uniform(0.05, 0.4)
            right, ratios = decided(calls, far["right"], threshold)
            others = [
                decided(calls, far[name], threshold)[0] for name in MEASURES if name != "right"
            ]
            others += [
                decided(calls, far["right"], threshold, previous=True)[0],
                decided(calls, far["right"], threshold, shared=True)[0],
            ]
            clear = all(abs(ratio / threshold - 1) > 0.01 for ratio in ratios)
            if clear and len({right, *others}) == 1 + len(others) and 6 <= sum(right) <= 16:
                return calls, threshold
    raise AssertionError("no threshold tells the mistakes apart")


@todo("8.6")
def test_the_first_block_decides_for_each_branch(candidate: Any, draw: Draw) -> None:
    """Outputs and block calls are those of FirstBlockCache on four transformer blocks."""
    count = 4
    blocks = live.blocks(count)
    calls, threshold = draw_case(draw)
    run_block = recorded(lambda j, x: blocks[j](x), "run_block")
    answer = candidate.cached_run(run_block, count, threshold, calls)
    assert_form(answer, ["Tensor"], what="the outputs")
    library = functools.cache(lambda: live.first_block_run(count, threshold, calls))
    assert_equals(len(answer), value=len(calls), what="how many outputs there are")
    for i, output in enumerate(answer):
        assert_tensor(output, like=calls[i]["x"], what=f"output {i}")
    assert_agrees(
        torch.stack(list(answer)),  # all at once: mistakes differ in which calls they skip
        library=lambda: torch.stack(library()[0]),
        what=f"the outputs of {len(calls)} calls, one after the other",
    )
    assert_equals(
        len(run_block.calls),
        library=lambda: sum(library()[1]),
        what=f"how many blocks were run in {len(calls)} calls",
    )


@todo("8.6", guards="a ratio that equals the threshold")
def test_what_equals_the_threshold_is_not_computed(candidate: Any, draw: Draw) -> None:
    """A call that repeats the one before is skipped even at threshold 0."""
    count = 3
    blocks = live.blocks(count)
    x = draw.latents(2, draw.integer(3, 5), live.WIDTH)
    calls = [{"branch": "a", "x": x}] * 3 + [{"branch": "a", "x": -x}]
    run_block = recorded(lambda j, x: blocks[j](x), "run_block")
    answer = candidate.cached_run(run_block, count, 0.0, calls)
    assert_form(answer, ["Tensor"], what="the outputs")
    library = functools.cache(lambda: live.first_block_run(count, 0.0, calls))
    assert_equals(
        len(run_block.calls), library=lambda: sum(library()[1]), what="how many blocks were run"
    )
    assert_agrees(answer[-1], library=lambda: library()[0][-1], what="the last output")


# 8.7


def draw_range(draw: Draw, every: int) -> tuple[range, int, int]:
    """Falling timesteps and a range whose ends are among them.

    The call at its lower end would be skipped if the end belonged to it, and the first call inside
    would be another one if calls were counted from there, or from 1.
    """
    while True:
        times = range(1000 - 50 * draw.integer(0, 3), 0, -50)
        low, high = 50 * draw.integer(2, 4), 50 * draw.integer(13, 16)
        first = times.index(high) + 1
        if times.index(low) % every and (every == 2 or first % every not in (0, every - 1)):
            return times, low, high


@todo("8.7", guards="one branch, as the hook has it")
@pytest.mark.parametrize("every", [3, 4])
def test_attention_is_computed_when_the_hook_does(candidate: Any, draw: Draw, every: int) -> None:
    """Every n-th call, and all outside the range, as PyramidAttentionBroadcast's hook decides."""
    for often in (every, 2, 1):
        times, low, high = draw_range(draw, every if often == 1 else often)
        calls = [("one", t) for t in times]
        assert_equals(
            candidate.attention_computed(calls, often, low, high),
            library=functools.partial(live.skipping_attention, calls, often, low, high),
            what=f"every {often} of {len(calls)} calls between {low} and {high}",
        )


@todo("8.7")
def test_each_branch_has_its_own_attention(candidate: Any, draw: Draw) -> None:
    """With two branches each decides as a hook of its own would; the library has one for both."""
    for every in (3, 2):
        times, low, high = draw_range(draw, every)
        calls = [(branch, t) for t in times for branch in BRANCHES]
        late = [("cond", t) for t in times[:3]] + calls  # one branch begins later
        for some in (calls, late):
            assert_equals(
                candidate.attention_computed(some, every, low, high),
                library=functools.partial(live.skipping_attention, some, every, low, high),
                what=f"every {every} of {len(some)} calls in two branches",
            )


@todo("8.7", guards="numbers that cannot be")
def test_what_cannot_be_planned_is_an_error(candidate: Any, draw: Draw) -> None:
    """Attention of every 0 calls, or a plan without ratios, raises ValueError."""
    assert_raises(
        lambda: candidate.attention_computed([("a", 500)], -draw.integer(0, 2), 100, 800),
        "ValueError",
        what="attention of no call",
    )
    assert_raises(
        lambda: candidate.mag_cache_plan([], draw.integer(5, 9), 0.06, 3, 0.2),
        "ValueError",
        what="a plan without ratios",
    )


Plan = tuple[list[float], int, float, int, float]


def planned(plan: Plan, mistake: str = "") -> tuple[tuple[bool, ...], float]:
    """The steps that are run under the rule or a mistaken one, and how near a sum came to the
    threshold.
    """
    ratios, steps, threshold, most, retention = plan
    product, error, count, nearest = 1.0, 0.0, 0, 1.0
    begin = int(retention * steps + (0 if mistake == "floored" else 0.5))
    run = []
    for i in range(steps):
        if i >= begin or mistake == "from the start":
            ratio = ratios[round(i * (len(ratios) - 1) / (steps - 1))]
            product = ratio if mistake == "each by itself" else product * ratio
            step = 1 - product if mistake == "signed" else abs(1 - product)
            error = step if mistake == "last alone" else error + step
            count += 1
        if i >= begin:
            nearest = min(nearest, abs(error - threshold))
            allowed = {"one less": most - 1, "without end": steps}.get(mistake, most)
            if i and error <= threshold and count <= allowed:
                run.append(False)
                continue
            if mistake != "nothing set back":
                product, error = 1.0, 0.0
                count = count if mistake == "count kept" else 0
        run.append(True)
    return tuple(run), nearest


MISTAKES = (
    "floored",
    "from the start",
    "each by itself",
    "signed",
    "last alone",
    "one less",
    "without end",
    "nothing set back",
    "count kept",
)


def draw_plan(draw: Draw, count: int, steps: int) -> Plan:
    """A plan by sums that are beyond doubt, to which every mistake has an answer of its own."""
    numbers = random.Random(draw.integer(0, 2**31))
    for _ in range(20_000):
        ratios = [
            round(1 - numbers.choice([0.3, 1, 3]) * numbers.uniform(-0.012, 0.018), 4)
            for _ in range(count)
        ]
        half = (numbers.randrange(1, 4) + 0.5) / steps + 0.01 / steps
        plan = (ratios, steps, round(numbers.uniform(0.03, 0.12), 3), numbers.randint(3, 4), half)
        right, nearest = planned(plan)
        if nearest < 1e-4 or len({right, *(planned(plan, m)[0] for m in MISTAKES)}) <= len(
            MISTAKES
        ):
            continue
        return plan
    raise AssertionError("no plan tells the mistakes apart")


@todo("8.7")
@pytest.mark.parametrize("stretch", ["as many", "fewer", "more"])
def test_steps_are_left_out_as_mag_cache_does(candidate: Any, draw: Draw, stretch: str) -> None:
    """The steps that are run are those in which MagCache runs the blocks."""
    for _ in range(2):
        steps = 2 * draw.integer(9, 13)  # even: no ratio lies in the middle of two
        count = {"as many": steps, "fewer": steps // 2 + 1, "more": 2 * steps - 5}[stretch]
        plan = draw_plan(draw, count, steps)
        assert_equals(
            candidate.mag_cache_plan(*plan),
            library=lambda plan=plan: live.mag_plan(*plan),  # type: ignore[misc]
            what=f"the steps that are run of {steps}, with {count} ratios",
        )


@todo("8.7", guards="the ends of the rule")
def test_plans_of_few_steps(candidate: Any, draw: Draw) -> None:
    """Step 0 is run whatever is kept; halves go to the even ratio; one step takes the last one."""
    flat, odd = [1.0] * draw.integer(2, 5), [1.0, 0.5, 1.0]
    for plan in (
        (flat, draw.integer(5, 8), 0.05, 2, 0.0),
        (odd, 5, 0.1, 4, 0.2),  # step 1 takes ratio 0, and step 3 ratio 2
        ([0.9, 1.0], 1, 0.05, 2, 0.0),
        (flat, draw.integer(5, 8), 0.0, 0, 0.0),
    ):
        assert_equals(
            candidate.mag_cache_plan(*plan),
            library=lambda plan=plan: live.mag_plan(*plan),  # type: ignore[misc]
            what=f"the steps that are run of {plan[1]}",
        )
