"""What diffusers does with weights that do not stay, narrow ones, and calls that are left out.

Nothing is moved between devices: of a group's coming and going only the order is asked, which the
hooks give on the CPU as well. Where a network's numbers do not matter it is built on meta.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from diffusers import hooks
from diffusers.hooks import group_offloading, layerwise_casting
from diffusers.models.attention import BasicTransformerBlock
from diffusers.models.attention_processor import Attention
from diffusers.models.cache_utils import CacheMixin
from torch import Tensor, nn

from infralens.examiner import library_function
from infralens.suites import configs
from infralens.suites.networks import frozen, seeded
from infralens.suites.releases import since

META, CPU = configs.META, torch.device("cpu")
Events = list[tuple[str, str]]
NARROW = torch.float8_e4m3fn

# Networks


class Sketch(nn.Module):
    """Every kind of leaf, lists of blocks in both kinds of containers, and a parameter of its own
    at each level; widths as they are drawn.
    """

    def __init__(self, widths: Sequence[int], blocks: int) -> None:
        super().__init__()
        a, b, c = widths
        self.table = nn.Parameter(torch.empty(a, 3))
        self.words = nn.Embedding(b, c)
        self.stem = nn.Sequential(
            nn.Conv1d(a, b, 3),
            nn.SiLU(),
            nn.Conv2d(b, a, 1),
            nn.GroupNorm(1, a),
            nn.Conv3d(a, c, 1),
        )
        self.up = nn.ModuleDict(
            {
                "line": nn.ConvTranspose1d(a, c, 2),
                "plane": nn.ConvTranspose2d(b, c, 2),
                "space": nn.ConvTranspose3d(c, a, 1),
            }
        )
        self.blocks = nn.ModuleList(SketchBlock(a + i, b) for i in range(blocks))
        self.blocks.register_parameter("shared", nn.Parameter(torch.empty(c, 5)))
        self.proj_out = nn.Linear(c, a)
        self.register_buffer("positions", torch.empty(b, 2))


class SketchBlock(nn.Module):
    """A block with a list inside it, and a projection that is named like one outside."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.scale_shift_table = nn.Parameter(torch.empty(6, a))
        self.norm = nn.LayerNorm(a)
        self.parts = nn.ModuleList(nn.Linear(a, b + i) for i in range(3))
        self.proj_out = nn.Linear(b, a)


NETWORKS: dict[str, Callable[[int], Any]] = {
    "wan": lambda blocks: configs.DENOISERS["WanTransformer3DModel"](
        num_layers=blocks, in_channels=4, out_channels=4, cross_attn_norm=True
    ),
    "unet": lambda blocks: configs.DENOISERS["UNet2DConditionModel"](
        cross_attention_dim=8,
        block_out_channels=(8,) * blocks,
        down_block_types=("DownBlock2D",) * (blocks - 1) + ("CrossAttnDownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D",) + ("UpBlock2D",) * (blocks - 1),
    ),
    "flux": lambda blocks: configs.DENOISERS["FluxTransformer2DModel"](
        num_layers=blocks, num_single_layers=blocks + 1, in_channels=16
    ),
}


def network(kind: str, blocks: int) -> Any:
    """A new network of a family, with so many blocks (levels of a UNet), on meta."""
    with META:
        return configs.network(NETWORKS[kind](blocks))


def sketch(widths: Sequence[int], blocks: int) -> Sketch:
    with META:
        return Sketch(widths, blocks)


def size(tensors: Iterator[Tensor] | Sequence[Tensor]) -> int:
    """Bytes, each tensor counted once."""
    return sum(t.numel() * t.element_size() for t in {id(t): t for t in tensors}.values())


def tree(module: nn.Module) -> list[tuple[str, str, int]]:
    """(name, class, own bytes) of every module."""
    return [
        (
            name,
            type(part).__name__,
            size([*part.parameters(recurse=False), *part.buffers(recurse=False)]),
        )
        for name, part in module.named_modules()
    ]


# Groups


@contextmanager
def watched() -> Iterator[list[tuple[str, Any]]]:
    """What comes and goes: ("on" or "off", group), while nothing is really moved."""
    seen: list[tuple[str, Any]] = []
    kind = group_offloading.ModuleGroup
    with (
        # Before 0.41 a group asks for the accelerator's module, also where there is none.
        mock.patch.object(torch.accelerator, "current_accelerator", return_value=CPU),
        mock.patch.object(kind, "onload_", lambda group: seen.append(("on", group))),
        mock.patch.object(kind, "offload_", lambda group: seen.append(("off", group))),
    ):
        yield seen


def groups(module: nn.Module, level: str, blocks_per_group: int) -> dict[str, int]:
    """{leader: bytes} of the groups that apply_group_offloading makes."""
    names = {id(part): name for name, part in module.named_modules()}
    with watched() as seen:  # every group goes once, when its hook is set
        hooks.apply_group_offloading(
            module,
            onload_device=CPU,
            offload_device=META,
            offload_type=level,
            num_blocks_per_group=blocks_per_group,
        )
    found = {}
    for _, group in seen:
        inside = [t for part in group.modules for t in (*part.parameters(), *part.buffers())]
        bytes_ = size([*inside, *group.parameters, *group.buffers])
        if bytes_:
            found[names[id(group.onload_leader)]] = bytes_
    return found


class Queue:
    """In place of a stream, of which the CPU has none: only that it is one is asked."""

    def synchronize(self) -> None: ...


class Ordered(nn.Module):
    """Blocks of so many bytes that are run in an order."""

    def __init__(
        self, own: int, sizes: Sequence[int], order: Sequence[int], tell: Callable[[str], None]
    ) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.zeros(own, dtype=torch.uint8), requires_grad=False)
        self.blocks = nn.ModuleList(
            Weighty(n, functools.partial(tell, f"blocks.{i}")) for i, n in enumerate(sizes)
        )
        self.order = order

    def forward(self) -> None:
        for i in self.order:
            self.blocks[i]()


class Weighty(nn.Module):
    """So many bytes that tell when they are run and do nothing else."""

    def __init__(self, n: int, tell: Callable[[], None]) -> None:
        super().__init__()
        self.bytes_ = nn.Parameter(torch.zeros(n, dtype=torch.uint8), requires_grad=False)
        self.tell = tell

    def forward(self) -> None:
        self.tell()


def passes(
    own: int, sizes: Sequence[int], order: Sequence[int], prefetch: bool, count: int
) -> list[Events]:
    """What comes, is run and goes in each of the first passes: ("on", "run" or "off", leader).

    The offload device is meta, so that nothing lies there and the fallback of a group that did not
    come in time does not bring it a second time.
    """
    seen: list[tuple[str, Any]]
    module = Ordered(own, sizes, order, lambda leader: seen.append(("run", leader)))
    names = {id(part): name for name, part in module.named_modules()}
    config = group_offloading.GroupOffloadingConfig(
        onload_device=CPU,
        offload_device=META,
        offload_type=group_offloading.GroupOffloadingType.BLOCK_LEVEL,
        non_blocking=False,
        record_stream=False,
        low_cpu_mem_usage=True,  # nothing is pinned
        num_blocks_per_group=1,
        stream=Queue() if prefetch else None,
    )
    made = []
    with watched() as seen:
        group_offloading._apply_group_offloading(module, config)
        for _ in range(count):
            seen.clear()
            module()
            made.append(
                [
                    (what, at if isinstance(at, str) else names[id(at.onload_leader)])
                    for what, at in seen
                ]
            )
    return made


def one_pass(
    own: int, sizes: Sequence[int], order: Sequence[int], prefetch: bool, first: bool
) -> dict[str, Any]:
    """The events of one pass, the most bytes at once, and those that came."""
    events = passes(own, sizes, order, prefetch, 1 if first else 2)[-1]
    bytes_ = {"": own, **{f"blocks.{i}": n for i, n in enumerate(sizes)}}
    moves = [event for event in events if event[0] != "run"]
    signed = [bytes_[at] if what == "on" else -bytes_[at] for what, at in moves]
    return {
        "events": moves,
        "peak": max(itertools.accumulate(signed)),
        "moved": sum(n for n in signed if n > 0),
    }


def seconds(copy: Sequence[float], compute: Sequence[float], events: Events) -> float:
    """When the last group is done, by playing a pass event for event.

    A copy waits for the one before it, since its hook waits for the stream; a run waits for its
    copy, and the hook after it for the run.
    """
    now, free, here = 0.0, 0.0, {}
    for what, leader in events:
        if not leader:
            continue
        i = int(leader.rpartition(".")[2])
        if what == "on":
            now = max(now, free)
            free = here[leader] = now + copy[i]
        elif what == "run":
            now = max(now, here[leader]) + compute[i]
    return now


# Narrow storage


def narrow(module: nn.Module, patterns: Sequence[str]) -> set[str]:
    """The names of the modules whose weights apply_layerwise_casting makes narrow."""
    kinds = layerwise_casting._GO_LC_SUPPORTED_PYTORCH_LAYERS
    with mock.patch.object(  # before 0.37 an embedding was no such kind
        layerwise_casting, "_GO_LC_SUPPORTED_PYTORCH_LAYERS", (*kinds, nn.Embedding)
    ):
        hooks.apply_layerwise_casting(module, NARROW, torch.float32, tuple(patterns))
    return {
        name
        for name, part in module.named_modules()
        if any(weight.dtype == NARROW for weight in part.parameters(recurse=False))
    }


def narrow_linear(x: Tensor, weight: Tensor, bias: Tensor | None, storage: str) -> Tensor:
    """A Linear whose weights wait in this dtype."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}))
    hooks.apply_layerwise_casting(frozen(layer), getattr(torch, storage), x.dtype, ())
    made: Tensor = layer(x)
    return made


# Codes


@functools.lru_cache
def gguf(kind: str) -> Callable[..., Tensor]:
    """The function of diffusers that reads blocks of this kind, without the package gguf."""
    read = {
        "Q8_0": lambda: library_function("quantizers/gguf/utils.py", "dequantize_blocks_Q8_0"),
        "Q4_0": lambda: library_function("quantizers/gguf/utils.py", "dequantize_blocks_Q4_0"),
        "Q4_1": lambda: library_function("quantizers/gguf/utils.py", "dequantize_blocks_Q4_1"),
    }[kind]()
    split = library_function("quantizers/gguf/utils.py", "split_block_dims")
    read.__globals__["split_block_dims"] = split
    return read


# Caches


class Stack(nn.Module, CacheMixin):  # type: ignore[misc]  # diffusers has no types
    """Blocks, one after the other, as caches expect them."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.transformer_blocks = nn.ModuleList(blocks)
        self.runs = 0

    def forward(self, hidden_states: Tensor) -> Tensor:
        for block in self.transformer_blocks:
            hidden_states = block(hidden_states)
        return hidden_states


WIDTH = 8


@functools.lru_cache
def _blocks() -> tuple[nn.Module, ...]:
    with seeded(3):
        made = [BasicTransformerBlock(WIDTH, 2, 4) for _ in range(4)]
        for weight in itertools.chain.from_iterable(block.parameters() for block in made):
            weight.data.add_(torch.randn_like(weight) * 0.3)
    return tuple(frozen(block) for block in made)


def blocks(count: int) -> tuple[nn.Module, ...]:
    """The first so many of four transformer blocks, the same each time, without hooks."""
    return _blocks()[:count]


def first_block_run(
    count: int, threshold: float, calls: Sequence[Mapping[str, Any]]
) -> tuple[list[Tensor], list[int]]:
    """What leaves the network in each call under FirstBlockCache, and how many blocks were run."""
    stack: Any = Stack(blocks(count))
    runs: list[int] = []

    def counted(*_: Any) -> None:
        runs[-1] += 1

    handles = [Counting(block, counted) for block in stack.transformer_blocks]
    stack.enable_cache(hooks.FirstBlockCacheConfig(threshold=threshold))
    outputs = []
    try:
        for call in calls:
            runs.append(0)
            with stack.cache_context(call["branch"]):
                outputs.append(stack(call["x"]).clone())
    finally:
        stack.disable_cache()
        for handle in handles:
            handle.remove()
    return outputs, runs


class Counting:
    """Tells each run of a block's own forward, which a hook of diffusers may leave out."""

    def __init__(self, block: nn.Module, tell: Callable[..., None]) -> None:
        self.handle = block.attn1.register_forward_hook(tell)  # type: ignore[union-attr]

    def remove(self) -> None:
        self.handle.remove()


def skipping_attention(
    calls: Sequence[tuple[str, float]], every: int, low: float, high: float
) -> list[bool]:
    """In which calls PyramidAttentionBroadcast computes; each branch has a layer of its own."""
    now: list[float] = [0.0]
    layers: dict[str, Any] = {}
    computed: list[bool] = []

    def processor(attn: Any, hidden_states: Tensor, **_: Any) -> Tensor:
        computed[-1] = True
        return hidden_states

    for branch, t in calls:
        if branch not in layers:
            layer = Attention(query_dim=2, heads=1, dim_head=2, processor=processor)
            module = nn.Module()
            module.transformer_blocks = nn.ModuleList([layer])
            hooks.apply_pyramid_attention_broadcast(
                module,
                hooks.PyramidAttentionBroadcastConfig(
                    spatial_attention_block_skip_range=every,
                    spatial_attention_timestep_skip_range=(low, high),
                    current_timestep_callback=lambda: now[0],
                ),
            )
            layers[branch] = layer
        now[0] = t
        computed.append(False)
        layers[branch](torch.zeros(1, 1, 2))
    return computed


def mag_rule(
    ratios: Sequence[float], steps: int, threshold: float, max_skips: int, retention: float
) -> list[bool]:
    """Ma and others 2025: each step is judged by all ratios since the last run."""
    ran = [True] * min(max(int(retention * steps + 0.5), 1), steps)
    for step in range(len(ran), steps):
        last = max(i for i, run in enumerate(ran) if run)
        skipped = range(max(last + 1, int(retention * steps + 0.5)), step + 1)
        taken = [ratios[round(i * (len(ratios) - 1) / (steps - 1))] for i in skipped]
        error = sum(abs(1 - math.prod(taken[:n])) for n in range(1, len(taken) + 1))
        ran.append(error > threshold or len(taken) > max_skips)
    return ran


def mag_plan(
    ratios: Sequence[float], steps: int, threshold: float, max_skips: int, retention: float
) -> list[bool]:
    """In which steps MagCache runs the blocks; before 0.37, which lacks it, by its rule."""
    if not since("0.37"):
        return mag_rule(ratios, steps, threshold, max_skips, retention)
    stack: Any = Stack(blocks(2))
    computed: list[bool] = []

    def tell(*_: Any) -> None:
        computed[-1] = True

    handles = [Counting(block, tell) for block in stack.transformer_blocks]
    stack.enable_cache(
        hooks.MagCacheConfig(
            threshold=threshold,
            max_skip_steps=max_skips,
            retention_ratio=retention,
            num_inference_steps=steps,
            mag_ratios=list(ratios),
        )
    )
    try:
        for _ in range(steps):
            computed.append(False)
            with stack.cache_context("one"):
                stack(torch.zeros(1, 2, WIDTH))
    finally:
        stack.disable_cache()
        for handle in handles:
            handle.remove()
    return computed
