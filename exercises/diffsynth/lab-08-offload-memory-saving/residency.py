"""Lab 08 · Residency: who lives on the device, in which format, and what is not computed again.

Goal: read memory saving as a schedule. Which weights come together and when they come and go, in
which narrow format they wait while the arithmetic stays wide, and by which rule a cache decides
that a step resembles the one before closely enough to leave it out.

Symbols: x = what enters a block, y = what leaves it, r = y − x its residual, q = the largest code
of a quantized weight.

Leaves of torch, of which this lab speaks: Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
ConvTranspose3d, Linear, Embedding. Norms are none.

`diffusers` cannot be imported in this file: what is asked is written in Python and torch.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

LEAVES = (
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Linear",
    "Embedding",
)


def offload_groups(
    tree: Sequence[tuple[str, str, int]], level: str, blocks_per_group: int
) -> dict[str, int]:
    """8.1 · Which weights come to the device together: {leader: bytes} of each group.

    tree: (name, class, bytes) of every module, in the order of named_modules, the root "" first;
    the bytes are those of its own parameters and buffers, without its children's. level:
    "block_level": the direct children of the root that are a ModuleList or a Sequential are lists
    of blocks. The blocks of each list form groups of blocks_per_group in their order, the last
    perhaps smaller; a block is a child of the list with all that is in it, and a group's leader is
    its first block. Everything else, the lists' own bytes too, is the group of the root, "".
    "leaf_level": each leaf of torch is a group by its own name, and what another module holds
    itself is a group by that module's name. blocks_per_group changes nothing here.
    Groups of 0 bytes are left out. Another level, or blocks_per_group below 1: ValueError.

    Source: apply_group_offloading.

    >>> tree = [("", "Net", 8), ("stem", "Linear", 40), ("blocks", "ModuleList", 0)]
    >>> tree += [(f"blocks.{i}", "Linear", 10 + i) for i in range(3)]
    >>> offload_groups(tree, "block_level", 2)
    {'': 48, 'blocks.0': 21, 'blocks.2': 12}
    >>> offload_groups(tree[:2], "leaf_level", 1)
    {'': 8, 'stem': 40}
    """
    raise NotImplementedError("TODO 8.1: offload_groups")


def group_events(
    groups: Mapping[str, int], order: Sequence[str], prefetch: bool, first_pass: bool
) -> dict[str, Any]:
    """8.2 · What comes and goes in one pass through a network: {"events", "peak", "moved"}.

    groups: {leader: bytes}, with the root's group "" among them. order: the leaders of the other
    groups as they are run, each once; those that are not run do not come. Returns
    "events": [("on" or "off", leader), …] in the order in which they happen,
    "peak": the most bytes on the device at once, "moved": the bytes that came in all.

    The root's group comes first and goes last. A group is run between its "on" and its "off", and
    goes right after. Without prefetch it comes right before it is run. With prefetch the next group
    comes right before each group is run: the first one after the root and before anything is run,
    the second before the first is run. The first pass with prefetch is as without: the order is
    only being learned.

    Source: GroupOffloadingHook and LazyPrefetchGroupOffloadingHook.

    >>> said = group_events({"": 1, "a": 5, "b": 7}, ["a", "b"], True, False)
    >>> [f"{what} {leader}" for what, leader in said["events"]]
    ['on ', 'on a', 'on b', 'off a', 'off b', 'off ']
    >>> said["peak"], said["moved"]
    (13, 13)
    """
    raise NotImplementedError("TODO 8.2: group_events")


def overlapped_seconds(copy: Sequence[float], compute: Sequence[float]) -> float:
    """8.2 · How long a pass takes when the next group is copied while this one is run.

    copy, compute: seconds of each group, in the order in which they are run; the root's is left
    out. One copy at a time: the first begins at 0, each further one when the group before it begins
    to run. A group runs when it is here and the one before it is done. Returns the moment at which
    the last is done; 0 for no groups.

    Source: the order of events of LazyPrefetchGroupOffloadingHook, with one stream for copies.

    >>> overlapped_seconds([2.0, 3.0, 1.0], [1.0, 4.0, 1.0])
    10.0
    """
    raise NotImplementedError("TODO 8.2: overlapped_seconds")


def cast_names(modules: Sequence[tuple[str, str]], patterns: Sequence[str]) -> list[str]:
    """8.3 · Which modules are stored in a narrow dtype: their names, in any order.

    modules: (name, class) of every module, in the order of named_modules. patterns: regular
    expressions. Every leaf of torch is stored narrow, unless re.search finds one of the patterns in
    its name or in the name of a module that it lies in ("a" and "a.b" for "a.b.c").

    Source: apply_layerwise_casting, whose default patterns are "pos_embed", "patch_embed", "norm",
    "^proj_in$" and "^proj_out$".

    >>> modules = [("", "Net"), ("a", "Block"), ("a.attn", "Attention"), ("a.attn.q", "Linear")]
    >>> modules += [("a.norm", "LayerNorm"), ("out", "Linear")]
    >>> cast_names(modules, ["norm"]), cast_names(modules, ["attn$"])
    (['a.attn.q', 'out'], ['out'])
    """

    raise NotImplementedError("TODO 8.3: cast_names")


def cast_linear(x: Tensor, weight: Tensor, bias: Tensor | None, storage: str) -> Tensor:
    """8.3 · A linear layer that is stored narrow and computed in x's dtype.

    x: (…, in), float32 or bfloat16. weight: (out, in), bias: (out,) or None, as they were before
    they were stored. storage: "float8_e4m3fn", "float8_e5m2" or "bfloat16". Both are cast to the
    storage dtype, which loses digits, and back to x's dtype for the product. x is not rounded.
    Returns (…, out) in x's dtype.

    Source: LayerwiseCastingHook.

    >>> x, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.03, 0.5]])
    >>> cast_linear(x, weight, None, "float8_e4m3fn")
    tensor([[2.]])
    """
    raise NotImplementedError("TODO 8.3: cast_linear")


def quantize(weight: Tensor, bits: int, group: int) -> tuple[Tensor, Tensor]:
    """8.4 · A weight as small whole numbers: (codes, scales), symmetric, a scale for each group.

    weight: (out, in) float32. Each row is cut into groups of `group` neighbours. With
    q = 2^(bits − 1) − 1 the scale of a group is its largest magnitude / q, and its codes are
    weight / scale, rounded with halves to the even, and kept between −q − 1 and q. A group of zeros
    has scale 0 and codes 0. Returns codes (out, in) int8 and scales (out, in / group) float32.
    A group that does not divide `in`, or bits outside 2 to 8: ValueError.

    Source: the rule of torch.fake_quantize_per_channel_affine, with rows of groups for channels.

    >>> codes, scales = quantize(torch.tensor([[7.0, -2.4, 0.0, 0.0]]), 4, 2)
    >>> codes.tolist(), scales.tolist()
    ([[7, -2, 0, 0]], [[1.0, 0.0]])
    """
    raise NotImplementedError("TODO 8.4: quantize")


def dequantize(codes: Tensor, scales: Tensor) -> Tensor:
    """8.4 · The weight that codes stand for: (out, in) float32.

    codes: (out, in) int8; scales: (out, groups) float32. Each code times the scale of its group.

    Source: the same.

    >>> codes = torch.tensor([[7, -2, 3, 1]], dtype=torch.int8)
    >>> dequantize(codes, torch.tensor([[1.0, 0.5]])).tolist()
    [[7.0, -2.0, 1.5, 0.5]]
    """
    raise NotImplementedError("TODO 8.4: dequantize")


def read_gguf(blocks: Tensor, kind: str) -> Tensor:
    """8.5 · The weights in blocks of a gguf file: (n, 32) float32.

    blocks: (n, width) uint8, a row for each block of 32 weights. All halves are little-endian
    float16. kind:
    "Q8_0": width 34: a half scale d, then 32 int8 codes c. A weight is d·c.
    "Q4_0": width 18: d, then 16 bytes of two codes c of four bits, 0 to 15: the low four bits of
    the bytes are the first 16 codes, the high ones the last 16. A weight is d·(c − 8).
    "Q4_1": width 20: d, a half minimum m, then 16 bytes as in Q4_0. A weight is d·c + m.
    Another kind or width: ValueError.

    Source: dequantize_blocks_Q8_0, _Q4_0 and _Q4_1 of diffusers.quantizers.gguf.

    >>> block = [0x00, 0x3C] + [0x91] * 16  # d = 1; the low codes are 1, the high ones 9
    >>> read_gguf(torch.tensor([block], dtype=torch.uint8), "Q4_0")[0, 15:17].tolist()
    [-7.0, 1.0]
    """
    raise NotImplementedError("TODO 8.5: read_gguf")


def cached_run(
    run_block: Callable[[int, Tensor], Tensor],
    blocks: int,
    threshold: float,
    calls: Sequence[Mapping[str, Any]],
) -> list[Tensor]:
    """8.6 · A network whose first block decides whether the others are run.

    run_block(j, x) runs block j, 0 … blocks − 1, of a network of at least two. calls: {"branch":
    str, "x": (B, N, D)} in their order, such as the conditional and the unconditional prediction of
    each step. Returns what leaves the network in each call.

    Block 0 always runs: y₀ from x, with the residual r = y₀ − x. It is compared with r', that of
    this branch's last call in which all blocks were run: mean|r − r'| / mean|r'|. Above the
    threshold, not when equal, and in a branch's first call, the other blocks run, each on what the
    one before gave; what they add, y − y₀, is kept for this branch, and r too. Otherwise no other
    block runs, and y₀ + what was kept is the answer.

    Source: FirstBlockCacheConfig and its hooks.

    >>> run = lambda j, x: x + 1 if j == 0 else 2 * x
    >>> calls = [{"branch": "a", "x": torch.full((1, 1, 1), v)} for v in (1.0, 5.0)]
    >>> [float(y) for y in cached_run(run, 2, 0.1, calls)]
    [4.0, 8.0]
    """
    raise NotImplementedError("TODO 8.6: cached_run")


def attention_computed(
    calls: Sequence[tuple[str, float]], every: int, low: float, high: float
) -> list[bool]:
    """8.7 · In which calls an attention layer is computed, and not taken from the call before.

    calls: (branch, timestep) in their order. Each branch has its own memory and counts its calls
    from 0, computed or not. A call is computed when it is its branch's first, when its timestep is
    not strictly between low and high, or when its number in its branch divides by `every`.
    every below 1: ValueError.

    Source: PyramidAttentionBroadcastConfig and its hook, which knows no branches.

    >>> attention_computed([("a", t) for t in (900, 700, 500, 300, 100, 50)], 2, 100, 800)
    [True, False, True, False, True, True]
    """
    raise NotImplementedError("TODO 8.7: attention_computed")


def mag_cache_plan(
    ratios: Sequence[float], steps: int, threshold: float, max_skips: int, retention: float
) -> list[bool]:
    """8.7 · In which steps a network is run, decided before the run: True where it is.

    ratios: how the magnitude of what the network adds changes from a step to the next, measured
    once. They are stretched to `steps` numbers: step i takes the ratio i·(n − 1)/(steps − 1),
    rounded with halves to the even; a single step takes the last. Steps before
    int(retention·steps + 0.5) are run, and so is step 0. From there on each step first multiplies
    its ratio into a product, adds |1 − product| to a sum and 1 to a count, which begin at 1, 0 and
    0. With a sum of at most `threshold` and a count of at most max_skips the step is skipped;
    otherwise it is run, and all three begin anew. No ratios: ValueError.

    Source: MagCacheConfig and its hooks.

    >>> mag_cache_plan([1.0, 0.98, 0.97, 0.97, 0.95], 5, 0.08, 3, 0.2)
    [True, False, False, True, False]
    """
    raise NotImplementedError("TODO 8.7: mag_cache_plan")
