"""Lab 08 · LoRA injection: a small trainable change of chosen weights.

Goal: see that a LoRA is a change of *weights*, W + s·B·A, stored as two thin matrices. It is no
scheduler and no ControlNet: nothing is added to the latents and no network runs beside the other
one. What has to be read is which layers it touches, how large s is, and whether it stands beside a
weight or has been added into it.

Symbols: r = rank, in and out = the widths of a linear layer, kh and kw = the sides of a kernel,
alpha = a number saved with the adapter, ΔW = the change of a weight.

`peft` and `diffusers` cannot be imported here: they hold the answers. A scale that a caller chooses
(`scale`, `weights`) is one thing; alpha / r, which belongs to the adapter, is another: they
multiply.
"""

# ruff: noqa: N803, N815  (A and B are capital letters in the paper and in every file)

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Adapter = dict[str, Any]  # {"A": Tensor, "B": Tensor, "alpha": a number}


def lora_delta(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """8.1 · What an adapter changes in a weight: ΔW = s·B·A, in the weight's own shape.

    A linear layer: A (r, in), B (out, r), ΔW (out, in).
    A convolution: A (r, in, kh, kw), B (out, r, 1, 1), ΔW (out, in, kh, kw): a convolution down to
    r channels with the full kernel, then one of 1 × 1 up to out.

    s = alpha / rank; with use_rslora (rank-stabilised) s = alpha / √rank. rank is r. A and B have
    one dtype, and ΔW is returned in it.

    Source: Hu et al. 2021 (arXiv 2106.09685), section 4.1; Kalajdzievski 2023 (arXiv 2312.03732);
    get_delta_weight in peft.tuners.lora.layer.

    >>> A, B = torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([[10.0], [20.0]])
    >>> lora_delta(A, B, 0.5, 1, False).tolist()
    [[5.0, 0.0, 10.0], [10.0, 0.0, 20.0]]
    >>> lora_delta(torch.ones(4, 3, 5, 5), torch.ones(6, 4, 1, 1), 2, 4, True).shape
    torch.Size([6, 3, 5, 5])
    """
    raise NotImplementedError("TODO 8.1: lora_delta")


class LoRALinear(nn.Module):
    """8.2 · A frozen linear layer with an adapter beside it: y = base(x) + (alpha / r)·B·A·x.

    base: the nn.Linear to wrap, kept as it is and frozen (weight, and bias where it has one).
    rank: r. alpha: a number. x: (…, in), any number of axes. Returns (…, out).

    lora_A: nn.Parameter (r, in), random, so that two layers begin differently.
    lora_B: nn.Parameter (out, r), zeros, so that a new layer's results are base's own, to the bit.
    Both have the dtype and the device of base's weight, and both are trained: gradients reach them,
    and x.

    kept belongs to 8.4: None, or the base weight as it was before an adapter was fused into it.

    Source: Hu et al. 2021 (arXiv 2106.09685), section 4.1; peft.tuners.lora.layer.Linear.

    >>> layer = LoRALinear(nn.Linear(3, 2), 1, 4.0)
    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> bool((layer(x) == layer.base(x)).all())
    True
    >>> layer.lora_A.data, layer.lora_B.data = torch.ones(1, 3), torch.tensor([[0.0], [0.5]])
    >>> [round(change, 3) for change in (layer(x) - layer.base(x)).tolist()]
    [0.0, 12.0]
    >>> layer.base.weight.requires_grad
    False
    """

    base: nn.Linear
    lora_A: nn.Parameter  # (r, in)
    lora_B: nn.Parameter  # (out, r)
    kept: Tensor | None  # (out, in)

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base = base
        self.rank = rank
        self.alpha = alpha
        self.kept = None
        raise NotImplementedError("TODO 8.2: LoRALinear.__init__")

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError("TODO 8.2: LoRALinear.forward")


def inject(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """8.3 · Put adapters into a model, in place: chosen nn.Linear modules become LoRALinear.

    A module is chosen when it is an nn.Linear and its name in model.named_modules() is a target or
    ends in "." + target. The target "to_q" chooses "to_q" and "mid.attn1.to_q", not "add_to_q";
    "attn1.to_q" chooses the second one only. A target that matches nothing is no error as long as
    another one does.

    The model has no adapters yet. Afterwards every parameter of it is frozen except the adapters'
    lora_A and lora_B. Returns the names of the modules replaced, in any order.

    No match at all, or a rank below 1: ValueError.

    Source: UNet2DConditionModel.add_adapter with LoraConfig(target_modules=targets), where only
    linear layers match.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> inject(model, ["2"], 2, 4.0)
    ['2']
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['2.lora_A', '2.lora_B']
    """
    raise NotImplementedError("TODO 8.3: inject")


def fuse(model: nn.Module, scale: float) -> None:
    """8.4 · Add each adapter into its weight: base.weight = W + scale·(alpha / r)·B·A, in place.

    W is the weight from before any fusing. So a second call, with another scale, replaces the
    first. The forward pass of a fused layer is base's alone: the adapter is in there already. Every
    LoRALinear of the model is fused (the model itself may be one); nothing else changes. Dtypes
    stay as they are, and what is frozen stays frozen, also where gradients are on.

    Source: fuse_lora of diffusers for the first call. (Further calls add up there, and its unfusing
    leaves traces: in this lab the formula is right.)

    >>> layer = LoRALinear(nn.Linear(3, 2), 1, 4.0)
    >>> layer.base.weight.data = torch.zeros(2, 3)
    >>> layer.lora_A.data, layer.lora_B.data = torch.ones(1, 3), torch.tensor([[0.0], [0.5]])
    >>> fuse(layer, 1.0), fuse(layer, 0.25)
    (None, None)
    >>> layer.base.weight.tolist()
    [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]]
    """
    raise NotImplementedError("TODO 8.4: fuse")


def unfuse(model: nn.Module) -> None:
    """8.4 · Take the adapters out again: each base.weight is, to the bit, what it was before fuse.

    In float16 and bfloat16 too. The forward pass adds the adapter again, at its own alpha / r: the
    scale of fuse is forgotten. A model that is not fused stays as it is.

    Source: the documented purpose of unfuse_lora in diffusers, which subtracts and so rounds.

    >>> layer = LoRALinear(nn.Linear(3, 2), 1, 4.0)
    >>> before = layer.base.weight.clone()
    >>> fuse(layer, 0.7), unfuse(layer)
    (None, None)
    >>> torch.equal(layer.base.weight, before)
    True
    """
    raise NotImplementedError("TODO 8.4: unfuse")


def combine_adapters(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """8.5 · Several adapters on one linear layer: ΔW = scale·Σ wᵢ·(alphaᵢ / rᵢ)·Bᵢ·Aᵢ.

    adapters: dicts of A (rᵢ, in), B (out, rᵢ) and alpha; ranks may differ. weights: one number for
    each, also negative. scale: one number for all. Returns (out, in). Another number of weights
    than of adapters: ValueError.

    Source: set_adapters(names, weights) of diffusers, run with cross_attention_kwargs={"scale": …}.

    >>> one = {"A": torch.tensor([[1.0, 0.0]]), "B": torch.tensor([[2.0]]), "alpha": 1.0}
    >>> two = {"A": torch.eye(2), "B": torch.tensor([[0.0, 8.0]]), "alpha": 1.0}
    >>> combine_adapters([one, two], [3.0, -1.0], 0.5).tolist()
    [[3.0, -2.0]]
    """
    raise NotImplementedError("TODO 8.5: combine_adapters")


def parse_state_dict(state_dict: dict[str, Tensor]) -> dict[str, Adapter]:
    """8.6 · The adapters in a file, whatever their spelling: {prefix: {"A", "B", "alpha"}}.

    X is the prefix, any text, and is kept as it is written. One file may mix the spellings.

        spelling     A                      B                    alpha
        peft         X.lora_A.weight        X.lora_B.weight
        diffusers    X.lora.down.weight     X.lora.up.weight     X.alpha
        Kohya        X.lora_down.weight     X.lora_up.weight     X.alpha

    X.alpha is a 0-d tensor and may stand beside any spelling; "alpha" of the answer is its number,
    or that tensor. An adapter without one has alpha = its own rank, so that s is 1. A and B are the
    tensors as they are.

    An A without B, a B without A, an alpha without both, or a key of any other form: ValueError.

    Source: peft's and Kohya's files; load_lora_weights of diffusers reads them one spelling a file.

    >>> found = parse_state_dict(
    ...     {
    ...         "unet.up.to_q.lora_A.weight": torch.zeros(4, 3),
    ...         "unet.up.to_q.lora_B.weight": torch.zeros(2, 4),
    ...         "mid.lora.down.weight": torch.zeros(8, 3),
    ...         "mid.lora.up.weight": torch.zeros(2, 8),
    ...         "mid.alpha": torch.tensor(2.0),
    ...     }
    ... )
    >>> {prefix: (adapter["A"].shape[0], adapter["alpha"]) for prefix, adapter in found.items()}
    {'unet.up.to_q': (4, 4), 'mid': (8, 2.0)}
    """
    raise NotImplementedError("TODO 8.6: parse_state_dict")
