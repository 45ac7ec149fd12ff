"""Lab 08 of diffsynth: the reading checkpoints, answered by diffusers' hooks and by torch."""

from __future__ import annotations

import itertools

import torch
from diffusers import UNet2DConditionModel
from diffusers.hooks.layerwise_casting import DEFAULT_SKIP_MODULES_PATTERN

from infralens.quiz import question
from infralens.suites.diffsynth.lab_08_offload_memory_saving import live


@question(
    "Stable Diffusion 1.5's UNet at block level: which share of its weights is in the root's "
    "group, in whole per cent?"
)
def share_of_the_root() -> int:
    """The middle, the first and last convolution and the time embedding: 99 of 860 million."""
    with live.META:
        groups = live.groups(UNet2DConditionModel(cross_attention_dim=768), "block_level", 1)
    return round(100 * groups[""] / sum(groups.values()))


@question(
    "A root's group of 1 GB and blocks of 4, 3 and 5 GB, run in this order with prefetch: how many "
    "GB at the peak, in the first pass and in the second?"
)
def peaks_with_prefetch() -> tuple[int, int]:
    """The first pass only learns the order: root and 5. Then root, 3 and 5."""
    first, second = (
        live.one_pass(1, (4, 3, 5), range(3), True, first)["peak"] for first in (True, False)
    )
    return first, second


@question("Which number becomes of 1000 in float8_e4m3fn on the CPU?")
def largest_of_e4m3() -> float:
    """It ends at 448, and what is larger becomes 448."""
    return float(torch.tensor(1000.0).to(torch.float8_e4m3fn))


@question("Flux under the default patterns: is the linear layer of a block's norm1 stored narrow?")
def linear_of_a_norm() -> bool:
    """ "norm" is found in the name of norm1, and spares all that lies in it."""
    narrow = live.narrow(live.network("flux", 1), DEFAULT_SKIP_MODULES_PATTERN)
    return "transformer_blocks.0.norm1.linear" in narrow


@question("How many bits does a weight in Q4_0 take, with its part of the scale?")
def bits_of_q4() -> float:
    """18 bytes for 32 weights."""
    block = torch.zeros(1, 18, dtype=torch.uint8)
    weights = live.gguf("Q4_0")(block, 32, 18, torch.float32)
    return 8 * block.numel() / weights.numel()


@question(
    "One layer with PyramidAttentionBroadcast, every second call, positive and negative called in "
    "turn inside the range: whose attention does the negative call get?",
    choices=("its own", "its own of the step before", "the positive one's"),
)
def whose_attention() -> str:
    """The hook counts both as calls of one run, and gives the last answer, which was positive."""
    computed = live.skipping_attention([("both", 500)] * 6, 2, 100, 800)
    return "the positive one's" if computed == [True, False] * 3 else "its own"


@question(
    "MagCache with 28 steps and a retention of 0.2: how many steps at the beginning are always run?"
)
def retained_steps() -> int:
    """0.2 · 28 is 5.6, and is rounded."""
    steps = 28  # as MagCacheConfig has it
    plan = live.mag_plan([1.0] * steps, steps, 1.0, steps, 0.2)
    return len(list(itertools.takewhile(bool, plan)))
