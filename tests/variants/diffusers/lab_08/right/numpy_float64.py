"""Right answers to lab 08, computed in float64 with numpy and cast at the end."""

import re

import numpy as np
import torch
from torch import nn


def wide(tensor):
    return tensor.detach().cpu().double().numpy()


def like(array, tensor):
    return torch.from_numpy(np.ascontiguousarray(array)).to(tensor)


def change(a, b, s):
    a, b = wide(a), wide(b)
    return s * np.tensordot(b.reshape(b.shape[0], b.shape[1]), a, axes=(1, 0))


def lora_delta(a, b, alpha, r, rs):
    return like(change(a, b, alpha * (r**-0.5 if rs else 1 / r)), a)


class LoRALinear(nn.Module):
    def __init__(self, linear, r, alpha):
        nn.Module.__init__(self)
        for parameter in linear.parameters():
            parameter.requires_grad_(False)
        self.add_module("base", linear)
        numbers = np.random.default_rng().normal(size=(r, linear.in_features)) * 0.02
        zeros = np.zeros((linear.out_features, r))
        self.register_parameter("lora_A", nn.Parameter(like(numbers, linear.weight)))
        self.register_parameter("lora_B", nn.Parameter(like(zeros, linear.weight)))
        self.s = alpha / r
        self.original = None

    def change(self):
        return change(self.lora_A, self.lora_B, self.s)

    def forward(self, x):
        y = self.base(x)
        if self.original is not None:
            return y
        down, up = self.lora_A.double(), self.lora_B.double()
        more = x.double().matmul(down.t()).matmul(up.t()).mul(self.s)
        return y.double().add(more).to(y.dtype)


def inject(model, targets, r, alpha):
    if not r >= 1:
        raise ValueError(f"rank {r}")
    ends = re.compile(r"(?:^|\.)(?:" + "|".join(map(re.escape, targets)) + r")\Z")
    found = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and ends.search(name)
    }
    if not found:
        raise ValueError(f"no {targets}")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, part in found.items():
        model.set_submodule(name, LoRALinear(part, r, alpha))
    return list(found)


def adapters(model):
    return (part for part in model.modules() if hasattr(part, "lora_A"))


def fuse(model, scale):
    for part in adapters(model):
        if part.original is None:
            part.original = part.base.weight.data
        fused = wide(part.original) + scale * part.change()
        part.base.weight = nn.Parameter(like(fused, part.original), requires_grad=False)


def unfuse(model):
    for part in adapters(model):
        if part.original is not None:
            part.base.weight = nn.Parameter(part.original, requires_grad=False)
            part.original = None


def combine_adapters(adapters, weights, scale):
    if len(adapters) - len(weights):
        raise ValueError("weights")
    total = sum(
        weight * change(one["A"], one["B"], one["alpha"] / one["A"].shape[0])
        for one, weight in zip(adapters, weights, strict=False)
    )
    return like(scale * total, adapters[0]["A"])


KEY = re.compile(
    r"(?P<x>.+)\.(?:(?P<alpha>alpha)|(?:(?P<a>lora_A|lora[._]down)|(?P<b>lora_B|lora[._]up))\.weight)"
)


def parse_state_dict(state):
    parts = {"A": {}, "B": {}, "alpha": {}}
    for key, tensor in state.items():
        match = KEY.fullmatch(key)
        if match is None:
            raise ValueError(key)
        kind = "alpha" if match["alpha"] else "A" if match["a"] else "B"
        parts[kind][match["x"]] = tensor
    if parts["A"].keys() != parts["B"].keys() or not parts["alpha"].keys() <= parts["A"].keys():
        raise ValueError("unpaired")
    return {
        x: {
            "A": a,
            "B": parts["B"][x],
            "alpha": parts["alpha"][x].numpy().item() if x in parts["alpha"] else int(a.shape[0]),
        }
        for x, a in sorted(parts["A"].items())
    }
