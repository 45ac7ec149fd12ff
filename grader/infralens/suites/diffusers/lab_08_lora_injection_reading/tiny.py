"""UNets to put adapters into, and what diffusers and peft make of them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from torch import Tensor, nn

from infralens.examiner import quiet_transformers
from infralens.shapes import FOLDER, LORA_FOLDER
from infralens.suites.networks import seeded

State = dict[str, Tensor]
LINEAR: dict[str, Any] = {
    "sample_size": 8,
    "block_out_channels": (16,),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D",),
    "mid_block_type": None,
    "up_block_types": ("CrossAttnUpBlock2D",),
    "attention_head_dim": 4,  # the number of heads
    "norm_num_groups": 8,
    "use_linear_projection": True,  # as Stable Diffusion 2 and XL
}
CONTEXT = 24


@functools.lru_cache
def small(context: int = CONTEXT) -> Any:
    """A UNet whose attention blocks begin and end in linear layers."""
    quiet_transformers()
    with seeded(8):
        return UNet2DConditionModel(**LINEAR, cross_attention_dim=context).eval()


@functools.lru_cache
def shipped() -> Any:
    """The UNet of the pipeline of shapes, trained; its attention blocks begin in convolutions."""
    quiet_transformers()
    return UNet2DConditionModel.from_pretrained(FOLDER / "unet").float().eval()


@functools.lru_cache
def hollow(kind: str) -> Any:
    """One of the two without numbers in it: enough where names alone are asked for."""
    config = UNETS[kind]().config
    with torch.device("meta"):
        return UNet2DConditionModel.from_config(config)


UNETS = {"linear": small, "shipped": shipped}
PLACES = {"linear": "down_blocks.0.attentions.0", "shipped": "down_blocks.1.attentions.0"}


def block_of(kind: str) -> Any:
    """One of the UNet's Transformer2DModels."""
    return UNETS[kind]().get_submodule(PLACES[kind])


def leaves_of(model: nn.Module) -> dict[str, str]:
    """Every module without modules in it: its kind, as the lab's skeleton knows them."""
    kinds = {nn.Linear: "Linear", nn.Conv2d: "Conv2d"}
    return {
        name: kinds.get(type(part), "other")
        for name, part in model.named_modules()
        if name and not list(part.children())
    }


def copied(module: Any, place: str = "") -> Any:
    """A module of the same structure with tensors of its own. What is no tensor is shared.

    With a `place`, that submodule and what stands around it, and no other: peft goes through every
    module there is. Deepcopy copies configurations and hooks of a thousand modules, which takes
    longer than a run.
    """
    twin: Any = object.__new__(type(module))
    own = dict(module.__dict__)
    for name, value in own.items():
        if isinstance(value, dict) and name.startswith("_") and name.endswith("_hooks"):
            own[name] = value.copy()
    first, _, rest = place.partition(".")
    own["_modules"] = {
        name: None if part is None else copied(part, rest)
        for name, part in module._modules.items()
        if first in ("", name)
    }
    own["_parameters"] = {
        name: None if p is None else nn.Parameter(p.detach().clone(), p.requires_grad)
        for name, p in module._parameters.items()
    }
    own["_buffers"] = {
        name: None if buffer is None else buffer.clone() for name, buffer in module._buffers.items()
    }
    twin.__dict__.update(own)
    return twin


@functools.lru_cache
def names_adapted(kind: str, targets: tuple[str, ...]) -> tuple[str, ...]:
    """The linear layers that add_adapter puts an adapter on."""
    return tuple(adapted_layers(adapted(hollow(kind), targets, 2, 3.0)))


def adapted(unet: Any, targets: Sequence[str], rank: int, alpha: float, place: str = "") -> Any:
    """A copy of the UNet, or of one place in it, after add_adapter(LoraConfig(…))."""
    from peft import LoraConfig

    unet = copied(unet, place)
    with seeded(8):
        unet.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(targets)))
    return unet


def adapted_layers(model: nn.Module) -> dict[str, Any]:
    """The linear layers in it that peft has put an adapter on, by name."""
    from peft.tuners.lora import Linear

    return {name: part for name, part in model.named_modules() if isinstance(part, Linear)}


def set_adapter(layer: Any, A: Tensor, B: Tensor, name: str = "default") -> None:  # noqa: N803  # as in the paper
    """Give one of peft's layers these factors."""
    layer.lora_A[name].weight.data = A.clone()
    layer.lora_B[name].weight.data = B.clone()


@functools.lru_cache
def stripes() -> dict[str, dict[str, Tensor]]:
    """The shipped adapter, {module: {"A", "B"}} in float32, however its file spells them."""
    from diffusers.utils import convert_unet_state_dict_to_peft
    from safetensors.torch import load_file

    file = load_file(LORA_FOLDER / "pytorch_lora_weights.safetensors")
    found: dict[str, dict[str, Tensor]] = {}
    for key, weight in convert_unet_state_dict_to_peft(file).items():
        module, _, factor = key.removesuffix(".weight").rpartition(".lora_")
        found.setdefault(module.removeprefix("unet."), {})[factor] = weight.float()
    return found


def loaded(file: State) -> Any:
    """A copy of the shipped UNet with an adapter that load_lora_adapter has read (peft's keys)."""
    unet = copied(shipped())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unet.load_lora_adapter(file, prefix=None)
    return unet
