"""Right answers to lab 08, written with plain loops, step by step."""

import torch
from torch import nn


def lora_delta(down, up, strength, r, stabilised):
    divisor = r**0.5 if stabilised else r
    shape = (up.shape[0],) + tuple(down.shape[1:])
    change = torch.zeros(shape, dtype=down.dtype, device=down.device)
    for o in range(up.shape[0]):
        for k in range(down.shape[0]):
            factor = float(up[o, k].reshape(())) * strength / divisor
            change[o] += factor * down[k]
    return change


class LoRALinear(nn.Module):
    def __init__(self, layer, r, strength):
        super().__init__()
        self.base = layer
        self.rank = r
        self.alpha = strength
        self.kept = None
        self.base.weight.requires_grad = False
        if self.base.bias is not None:
            self.base.bias.requires_grad = False
        like = {"dtype": layer.weight.dtype, "device": layer.weight.device}
        self.lora_A = nn.Parameter(torch.empty(r, layer.in_features, **like))
        self.lora_B = nn.Parameter(torch.empty(layer.out_features, r, **like))
        bound = layer.in_features**-0.5
        self.lora_A.data.uniform_(-bound, bound)
        self.lora_B.data.fill_(0.0)

    def forward(self, inputs):
        answer = self.base(inputs)
        if self.kept is None:
            small = inputs.matmul(self.lora_A.t())
            answer = answer + small.matmul(self.lora_B.t()).mul(self.alpha).div(self.rank)
        return answer


def inject(network, wanted, r, strength):
    if r <= 0:
        raise ValueError("rank")
    hits = []
    for path, layer in list(network.named_modules()):
        if not isinstance(layer, nn.Linear):
            continue
        words = path.split(".")
        for name in wanted:
            tail = name.split(".")
            if words[len(words) - len(tail) :] == tail and len(words) >= len(tail):
                hits.append(path)
                break
    if len(hits) == 0:
        raise ValueError("no layer")
    for parameter in network.parameters():
        parameter.requires_grad = False
    for path in reversed(hits):
        holder = network
        words = path.split(".")
        for word in words[:-1]:
            holder = getattr(holder, word)
        setattr(holder, words[-1], LoRALinear(getattr(holder, words[-1]), r, strength))
    return tuple(reversed(hits))


def fuse(network, strength):
    for part in network.modules():
        if not isinstance(part, LoRALinear):
            continue
        if part.kept is None:
            part.kept = part.base.weight.detach().clone()
        change = lora_delta(
            part.lora_A.detach(), part.lora_B.detach(), part.alpha, part.rank, False
        )
        with torch.no_grad():
            part.base.weight.copy_(part.kept)
            part.base.weight.add_(change, alpha=strength)


def unfuse(network):
    for part in network.modules():
        if isinstance(part, LoRALinear) and part.kept is not None:
            with torch.no_grad():
                part.base.weight[:] = part.kept
            part.kept = None


def combine_adapters(parts, strengths, overall):
    if len(parts) != len(strengths):
        raise ValueError("a strength for each")
    total = None
    for part, strength in zip(parts, strengths):
        r = part["A"].shape[0]
        change = overall * strength * lora_delta(part["A"], part["B"], part["alpha"], r, False)
        total = change if total is None else total + change
    return total


def parse_state_dict(tensors):
    downs, ups, alphas = {}, {}, {}
    for key in tensors:
        words = key.split(".")
        if words[-1] == "alpha":
            alphas[".".join(words[:-1])] = tensors[key]
        elif words[-1] != "weight" or len(words) < 2:
            raise ValueError(key)
        elif words[-2] in ("lora_A", "lora_down"):
            downs[".".join(words[:-2])] = tensors[key]
        elif words[-2] in ("lora_B", "lora_up"):
            ups[".".join(words[:-2])] = tensors[key]
        elif words[-3:-1] == ["lora", "down"]:
            downs[".".join(words[:-3])] = tensors[key]
        elif words[-3:-1] == ["lora", "up"]:
            ups[".".join(words[:-3])] = tensors[key]
        else:
            raise ValueError(key)
    if set(downs) != set(ups) or set(alphas) - set(downs):
        raise ValueError("half an adapter")
    result = {}
    for name in downs:
        alpha = alphas[name] if name in alphas else len(downs[name])
        result[name] = {"alpha": alpha, "A": downs[name], "B": ups[name]}
    return result
