"""What the page of diffsynth/lab-08 says of the libraries themselves, held against those here."""

from __future__ import annotations

import enum
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import diffusers
import pytest
import torch
from diffusers import hooks
from diffusers.hooks import group_offloading
from torch import nn

from infralens.suites.diffsynth.lab_08_offload_memory_saving import live


def test_the_stand_in_for_a_stream_is_taken_for_one() -> None:
    """The first pass learns the order, and the ones after it fetch ahead; nothing comes twice."""
    for order in ((2, 0, 3, 1), (0, 1, 2, 3)):
        first, second, third = live.passes(9, (5, 6, 7, 8), order, True, 3)
        assert second == third
        assert first == live.passes(9, (5, 6, 7, 8), order, False, 1)[0]
        names = [f"blocks.{i}" for i in order]
        assert second[:4] == [("on", ""), ("on", names[0]), ("on", names[1]), ("run", names[0])]
        came = [leader for what, leader in second if what == "on"]
        assert came == ["", *names]


@pytest.fixture
def gguf_utils() -> Any:
    """diffusers' module that wants the package gguf, with a stand-in for its two names."""
    file = Path(diffusers.__file__).parent / "quantizers" / "gguf" / "utils.py"
    names = sorted(set(re.findall(r"gguf\.GGMLQuantizationType\.(\w+)", file.read_text("utf-8"))))
    kinds = enum.IntEnum("GGMLQuantizationType", names)  # type: ignore[misc]
    package: Any = ModuleType("gguf")
    package.GGMLQuantizationType = kinds
    package.GGML_QUANT_SIZES = {kinds["Q8_0"]: (32, 34), kinds["Q4_0"]: (32, 18)}
    name = "diffusers.quantizers.gguf.utils"
    with mock.patch.dict(sys.modules, {"gguf": package}):
        sys.modules.pop(name, None)
        yield importlib.import_module(name)


def test_weights_of_gguf_come_in_float16_whatever_is_computed(gguf_utils: Any) -> None:
    kind = gguf_utils.gguf.GGMLQuantizationType.Q4_0
    data = torch.randint(0, 255, (3, 18), dtype=torch.uint8)
    data[:, 1] = 0x3C
    weight = gguf_utils.GGUFParameter(data, quant_type=kind)
    assert gguf_utils.dequantize_gguf_tensor(weight).dtype == torch.float16
    asked = gguf_utils.dequantize_blocks_Q4_0(data, 32, 18, torch.float32)
    assert asked.dtype == torch.float32
    assert torch.equal(asked, live.gguf("Q4_0")(data, 32, 18, torch.float32))


def test_broadcast_attention_knows_no_branches() -> None:
    """Called in turn, the negative prediction has the positive one's attention, to the bit."""
    torch.manual_seed(0)
    layer = live.Attention(query_dim=4, heads=1, dim_head=4)
    module = nn.Module()
    module.transformer_blocks = nn.ModuleList([layer])
    config = hooks.PyramidAttentionBroadcastConfig(
        spatial_attention_block_skip_range=2, current_timestep_callback=lambda: 500
    )
    hooks.apply_pyramid_attention_broadcast(module, config)
    for _ in range(3):
        positive, negative = layer(torch.randn(1, 3, 4)), layer(torch.randn(1, 3, 4))
        assert torch.equal(positive, negative)


def test_a_cast_layer_stays_cast_and_its_digits_are_lost() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    hooks.apply_layerwise_casting(layer, torch.float8_e4m3fn, torch.float32, ())
    with pytest.raises(NotImplementedError):
        hooks.HookRegistry.check_if_exists_or_initialize(layer).remove_hook("layerwise_casting")
    assert not torch.equal(layer.weight.float(), before)


def test_float8_ends_without_a_word() -> None:
    assert torch.tensor([1000.0, -1000.0]).to(torch.float8_e4m3fn).tolist() == [448.0, -448.0]


def test_a_stream_takes_one_block_a_group() -> None:
    config = group_offloading.GroupOffloadingConfig(
        onload_device=torch.device("cpu"),
        offload_device=live.META,
        offload_type=group_offloading.GroupOffloadingType.BLOCK_LEVEL,
        non_blocking=False,
        record_stream=False,
        low_cpu_mem_usage=True,
        num_blocks_per_group=2,
        stream=live.Queue(),
    )
    module = live.Ordered(3, (4, 5, 6), (0, 1, 2), lambda leader: None)
    with (
        live.watched() as seen,
        mock.patch.object(group_offloading.logger, "warning") as told,
    ):
        group_offloading._apply_group_offloading(module, config)
    assert told.called
    assert [len(group.modules) for _, group in seen if group.onload_leader is not module] == [1] * 3


def test_the_roots_group_lists_its_tensors_twice() -> None:
    module = live.network("wan", 2)
    with live.watched() as seen:
        hooks.apply_group_offloading(
            module, torch.device("cpu"), live.META, "block_level", num_blocks_per_group=1
        )
    root = next(group for _, group in seen if group.onload_leader is module)
    inside = {id(weight) for part in root.modules for weight in part.parameters()}
    assert inside <= {id(weight) for weight in root.parameters}
    assert inside
