"""Lab 08: the reading checkpoints, answered by the live library and by the shipped weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from infralens.quiz import question
from infralens.suites.diffusers.lab_08_lora_injection_reading import tiny
from infralens.suites.networks import seeded

LAYER = f"{tiny.PLACES['linear']}.transformer_blocks.0.attn1.to_q"


def unet_with_adapter() -> tuple[Any, Any]:
    """A small UNet with an adapter of rank 2 and alpha 2 on one layer; and that layer."""
    unet = tiny.adapted(tiny.small(), [LAYER], 2, 2.0)
    layer = unet.get_submodule(LAYER)
    with seeded(8):
        layer.lora_B["default"].weight.data.normal_()
    return unet, layer


@torch.no_grad()
def share_of_change(layer: Any, before: Tensor) -> float:
    """How many times the adapter's ΔW = B·A the weight has moved."""
    whole = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    moved = layer.base_layer.weight - before
    return round(float((moved * whole).sum() / (whole * whole).sum()), 3)


@question(
    "A linear layer maps 320 numbers to 1280. How many numbers does an adapter of rank 8 train?"
)
def numbers_to_train() -> int:
    """8·(320 + 1280) = 12800, where the layer's weight has 409600."""
    from peft import LoraConfig, inject_adapter_in_model

    model = torch.nn.Sequential(torch.nn.Linear(320, 1280))
    adapted = inject_adapter_in_model(LoraConfig(r=8, target_modules=["0"]), model)
    return sum(p.numel() for p in adapted.parameters() if p.requires_grad)


@question(
    "The shipped adapter paints stripes. How many layers of the UNet does its file hold factors "
    "for?"
)
def layers_of_the_shipped_adapter() -> int:
    """86: attention, the projections around it, and the convolutions of the residual blocks."""
    return len(tiny.stripes())


@question(
    "An adapter file has a module of rank 8 and one of rank 4, and no alpha anywhere. What is the "
    "scale alpha / rank of the second one, as diffusers loads it?"
)
def scale_without_alpha() -> float:
    """1 since diffusers 0.40: without an alpha each module's alpha is its own rank. Before, the
    first module's rank was the alpha of all, so the scale is 8 / 4 = 2 there."""
    adapters = list(tiny.stripes().items())[:2]
    file: dict[str, Tensor] = {}
    for (module, factors), rank in zip(adapters, (8, 4), strict=True):
        file[f"{module}.lora_A.weight"] = factors["A"][:rank]
        file[f"{module}.lora_B.weight"] = factors["B"][:, :rank].contiguous()
    layer = tiny.loaded(file).get_submodule(adapters[1][0])
    return float(layer.scaling["default_0"])


@question(
    "set_adapters gives an adapter the weight 0.5, and the UNet is called with "
    'cross_attention_kwargs={"scale": 0.5}. At which strength does it work?'
)
def both_scales() -> float:
    """0.25. The two multiply; use one of them."""
    unet, layer = unet_with_adapter()
    unet.set_adapters(["default"], [0.5])
    seen: list[float] = []
    layer.register_forward_hook(lambda *_: seen.append(float(layer.scaling["default"])))
    latents, context = torch.zeros(1, 4, 8, 8), torch.zeros(1, 3, tiny.CONTEXT)
    with torch.no_grad():
        unet(latents, 1, context, cross_attention_kwargs={"scale": 0.5})
    return seen[0]


@question(
    'After fuse_lora() the UNet is called once with cross_attention_kwargs={"scale": 0.0} and once '
    "without. Do the two results differ?"
)
def scale_after_fusing() -> bool:
    """No. The adapter is in the weights, and nothing is left for the scale to multiply. Say at
    fuse_lora how strong it is to be."""
    unet, _ = unet_with_adapter()
    unet.fuse_lora()
    with seeded(8):
        latents, context = torch.randn(1, 4, 8, 8), torch.randn(1, 3, tiny.CONTEXT)
    with torch.no_grad():
        plain = unet(latents, 1, context).sample
        scaled = unet(latents, 1, context, cross_attention_kwargs={"scale": 0.0}).sample
    return not torch.equal(plain, scaled)


@question(
    "fuse_lora(lora_scale=0.5), unfuse_lora(), fuse_lora(lora_scale=0.5), with diffusers 0.42.1. "
    "How many times ΔW is in the weight afterwards?"
)
def fused_again() -> float:
    """0.25. fuse_lora multiplies the adapter's own scale and unfuse_lora leaves it so; the second
    call multiplies again. Your fuse gives 0.5."""
    unet, layer = unet_with_adapter()
    before = layer.base_layer.weight.clone()
    unet.fuse_lora(lora_scale=0.5)
    unet.unfuse_lora()
    unet.fuse_lora(lora_scale=0.5)
    return share_of_change(layer, before)
