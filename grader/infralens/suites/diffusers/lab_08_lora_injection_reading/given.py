"""What lives beside the submission: models to put adapters into. It holds no answers.

`transformer` computes what diffusers' Transformer2DModel does, under the same names, in plain
torch: diffusers and peft are masked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = dict[str, Tensor]


class Attention(nn.Module):
    """Attention of tokens to a context, or to each other."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(context, width, bias=False)
        self.to_v = nn.Linear(context, width, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(width, width), nn.Dropout(0.0)])

    def forward(self, hidden: Tensor, context: Tensor) -> Tensor:
        split = [
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, x in ((self.to_q, hidden), (self.to_k, context), (self.to_v, context))
        ]
        gathered: Tensor = F.scaled_dot_product_attention(*split)
        result: Tensor = self.to_out[0](gathered.transpose(1, 2).flatten(2))
        return result


class GEGLU(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 8 * width)

    def forward(self, hidden: Tensor) -> Tensor:
        value, gate = self.proj(hidden).chunk(2, dim=-1)
        result: Tensor = value * F.gelu(gate)
        return result


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.ModuleList([GEGLU(width), nn.Dropout(0.0), nn.Linear(4 * width, width)])

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.net[2](self.net[0](hidden))
        return result


class Block(nn.Module):
    """Self-attention, cross-attention, feed-forward, each with a norm before it."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn1 = nn.LayerNorm(width), Attention(width, width, heads)
        self.norm2, self.attn2 = nn.LayerNorm(width), Attention(width, context, heads)
        self.norm3, self.ff = nn.LayerNorm(width), FeedForward(width)

    def forward(self, hidden: Tensor, context: Tensor) -> Tensor:
        normed = self.norm1(hidden)
        hidden = hidden + self.attn1(normed, normed)
        hidden = hidden + self.attn2(self.norm2(hidden), context)
        result: Tensor = hidden + self.ff(self.norm3(hidden))
        return result


class Transformer(nn.Module):
    """hidden (B, C, H, W), context (B, M, E) → (B, C, H, W)."""

    def __init__(self, width: int, context: int, heads: int, groups: int, linear: bool) -> None:
        super().__init__()
        self.linear = linear
        self.norm = nn.GroupNorm(groups, width, eps=1e-6)
        self.proj_in = nn.Linear(width, width) if linear else nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([Block(width, context, heads)])
        self.proj_out = nn.Linear(width, width) if linear else nn.Conv2d(width, width, 1)

    def forward(self, hidden: Tensor, context: Tensor) -> Tensor:
        image = self.norm(hidden)
        if self.linear:
            tokens = self.proj_in(image.flatten(2).mT)
        else:
            tokens = self.proj_in(image).flatten(2).mT
        tokens = self.transformer_blocks[0](tokens, context)
        if self.linear:
            change = self.proj_out(tokens).mT.unflatten(2, hidden.shape[2:])
        else:
            change = self.proj_out(tokens.mT.unflatten(2, hidden.shape[2:]))
        result: Tensor = change + hidden
        return result


def transformer(state: State, heads: int, groups: int) -> Transformer:
    """A Transformer with these weights, in their dtype and on their device."""
    first = state["proj_in.weight"]
    context = state["transformer_blocks.0.attn2.to_k.weight"].shape[1]
    model = Transformer(len(first), context, heads, groups, first.ndim == 2)
    model.to(first.device, first.dtype).load_state_dict(state)
    return model.eval()


class Projection(nn.Linear):
    """A linear layer of a class of its own, as there are in every library."""


LEAVES: dict[str, Any] = {
    "Linear": lambda: nn.Linear(3, 2),
    "Projection": lambda: Projection(3, 2),
    "Conv2d": lambda: nn.Conv2d(3, 2, 1),
    "Embedding": lambda: nn.Embedding(3, 2),
    "other": lambda: nn.LayerNorm(2),
}


def skeleton(leaves: dict[str, str]) -> nn.Module:
    """Modules nested under these names, each a small leaf of its kind. It computes nothing."""
    root = nn.Module()
    for name, kind in leaves.items():
        *above, last = name.split(".")
        holder = root
        for part in above:
            if not hasattr(holder, part):
                holder.add_module(part, nn.Module())
            holder = getattr(holder, part)
        holder.add_module(last, LEAVES[kind]())
    return root


def linear(state: State) -> nn.Linear:
    """A linear layer with this weight, and this bias if there is one."""
    weight = state["weight"]
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias="bias" in state)
    layer.to(weight.device, weight.dtype).load_state_dict(state)
    return layer


def hollow(state: State) -> nn.Linear:
    """The same layer on the meta device, where a tensor has no numbers."""
    return linear(state).to("meta")


def called(module: nn.Module, *args: Tensor) -> Any:
    """What a module makes of these."""
    return module(*args)


def gradients(module: nn.Module, x: Tensor, upstream: Tensor) -> State:
    """Gradients of x and of every parameter that has one, given those of the result."""
    with torch.enable_grad():
        x = x.clone().requires_grad_(True)
        module.zero_grad(set_to_none=True)
        module(x).backward(upstream)
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return {"x": torch.zeros_like(x) if x.grad is None else x.grad, **found}


def devices_of(module: nn.Module) -> dict[str, str]:
    """The kind of device that each parameter is on."""
    return {name: p.device.type for name, p in module.named_parameters()}


def parameter(module: nn.Module, name: str) -> Any:
    """What stands at this place, whatever the module itself lists; None where nothing does."""
    place: Any = module
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def in_a_line(p: Any) -> str:
    if not isinstance(p, nn.Parameter):
        return "no parameter"
    state = "trained" if p.requires_grad else "frozen"
    return f"{tuple(p.shape)}, {str(p.dtype).removeprefix('torch.')}, {state}"


def parameters_of(module: nn.Module, names: Sequence[str] = ()) -> dict[str, str]:
    """Each parameter in a line: its shape, its dtype, and whether it is trained.

    Those of `names` are looked up one by one: a module need not list them all.
    """
    listed = {name: in_a_line(p) for name, p in module.named_parameters()}
    return listed | {name: in_a_line(parameter(module, name)) for name in names}


def trained(
    module: nn.Module, names: Sequence[str], inputs: Sequence[Tensor], upstream: Tensor, rate: float
) -> None:
    """A step of gradient descent on each of these parameters that a gradient reaches."""
    places = [parameter(module, name) for name in names]
    with torch.enable_grad():
        module(*inputs).backward(upstream)
    with torch.no_grad():
        for p in places:
            if isinstance(p, Tensor) and p.grad is not None:
                p -= rate * p.grad
                p.grad = None
