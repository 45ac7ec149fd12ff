"""What lives beside the submission: a module whose parameters are on meta. It holds no answers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def empty(
    shapes: dict[str, list[int]], buffers: dict[str, Tensor], unsaved: dict[str, Tensor]
) -> Any:
    """A module with these parameters on meta and these buffers; the last ones are never saved."""
    whole = nn.Module()
    for name, shape in shapes.items():
        place, own = part_of(whole, name)
        place.register_parameter(own, nn.Parameter(torch.empty(shape, device="meta")))
    for saved, held in ((True, buffers), (False, unsaved)):
        for name, tensor in held.items():
            place, own = part_of(whole, name)
            place.register_buffer(own, tensor.clone(), persistent=saved)
    return whole


def part_of(whole: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The part that holds the tensor of this dotted name, made where it is not there yet."""
    *path, own = name.split(".")
    for word in path:
        if word not in dict(whole.named_children()):
            whole.add_module(word, nn.Module())
        whole = whole.get_submodule(word)
    return whole, own


def tensors(module: Any) -> dict[str, Tensor]:
    """Everything that the module holds, the unsaved buffers too."""
    found = dict(module.named_parameters()) | dict(module.named_buffers())
    return {name: value.detach() for name, value in found.items()}


def kinds(module: Any) -> dict[str, list[str]]:
    """{name: [device, dtype]}: what is on meta can be asked for in words alone."""
    return {name: [value.device.type, str(value.dtype)] for name, value in tensors(module).items()}
