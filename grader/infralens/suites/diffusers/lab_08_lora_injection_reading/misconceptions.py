"""Lab 08: what goes wrong between a weight and its adapter, as code that does it."""

# ruff: noqa: N803, N806, N815  (A and B are capital letters in the paper and in every file)

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from infralens.examiner import misconception

LORA = "handbook/lora.md"
FORMULA, SCALING = f"{LORA}#the-formula", f"{LORA}#alpha-and-rank"
KERNELS, START, PLACES = f"{LORA}#convolutions", f"{LORA}#how-it-begins", f"{LORA}#where-it-is-put"
FUSING, SEVERAL, FILES = f"{LORA}#fusing", f"{LORA}#several-adapters", f"{LORA}#files"
Wrong = TypeVar("Wrong", bound=Callable[..., Any])
Adapter = dict[str, Any]
Found = dict[str, Adapter]


# 8.1


def ba(A: Tensor, B: Tensor) -> Tensor:
    """The compact twin, without any scale."""
    return torch.einsum("or,r...->o...", B.flatten(1), A)


def root_or_rank(rank: int, root: bool) -> float:
    return float(rank) ** (0.5 if root else 1)


def delta_(name: str, reads: str = SCALING) -> Callable[[Wrong], Wrong]:
    return misconception("8.1", name, replaces="lora_delta", reads=reads)


@delta_("alpha-not-divided")
def alpha_alone(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """B·A was multiplied by alpha alone. The scale is alpha over the rank (or over its root)."""
    return alpha * ba(A, B)


@delta_("alpha-zero-taken-as-missing")
def zero_is_missing(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """An alpha of 0 was taken for a missing one. It is a number: the adapter changes nothing."""
    return (alpha or rank) / root_or_rank(rank, use_rslora) * ba(A, B)


@delta_("alpha-ignored")
def no_scale(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """The scale is missing. ΔW is alpha / rank times B·A; they are equal only by accident."""
    return ba(A, B)


@delta_("rank-over-alpha")
def upside_down(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """The scale is upside down. It grows with alpha and shrinks with the rank."""
    return root_or_rank(rank, use_rslora) / alpha * ba(A, B)


@delta_("one-over-rank")
def alpha_left_out(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """B·A was divided by the rank, and alpha was left out. The scale is alpha / rank."""
    return ba(A, B) / root_or_rank(rank, use_rslora)


@delta_("rank-stabilising-ignored")
def never_the_root(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """use_rslora was not looked at. Rank-stabilised adapters are scaled by alpha / √rank."""
    return alpha / rank * ba(A, B)


@delta_("always-rank-stabilised")
def always_the_root(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """The root of the rank was taken without use_rslora. A plain adapter has alpha / rank."""
    return alpha / root_or_rank(rank, True) * ba(A, B)


@delta_("root-of-the-whole-scale")
def root_of_both(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """The root was taken of alpha / rank. It is of the rank alone: alpha / √rank."""
    return (alpha / rank) ** (0.5 if use_rslora else 1) * ba(A, B)


@delta_("scale-on-both-factors")
def scaled_twice(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """The scale was applied to A and to B, so it counts twice. B·A is scaled once."""
    return (alpha / root_or_rank(rank, use_rslora)) ** 2 * ba(A, B)


@delta_("factors-multiplied-the-other-way", FORMULA)
def a_times_b(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """A·B was computed. A maps the input down to the rank and B maps up: ΔW = B·A."""
    return alpha / root_or_rank(rank, use_rslora) * (A @ B)


@delta_("change-transposed", FORMULA)
def in_before_out(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """ΔW came out as (in, out). A weight is (out, in), and so is B·A."""
    return alpha / root_or_rank(rank, use_rslora) * ba(A, B).transpose(0, 1)


@delta_("kernel-left-in-a-row", KERNELS)
def flat_kernel(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """A convolution's ΔW was left as a matrix. Give it the weight's axes: (out, in, kh, kw)."""
    return alpha / root_or_rank(rank, use_rslora) * ba(A, B).flatten(1)


@delta_("kernel-before-channels", KERNELS)
def kernel_first(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """A convolution's ΔW was reshaped with the kernel in front of the channels. A's axes are
    (r, in, kh, kw): the kernel comes last."""
    change = alpha / root_or_rank(rank, use_rslora) * ba(A, B)
    if change.ndim == 2:
        return change
    return change.reshape(len(B), *A.shape[2:], A.shape[1]).permute(0, 3, 1, 2)


@delta_("kernel-flipped", KERNELS)
def flipped(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """The kernel came out flipped. Two convolutions in a row of which the second is 1 × 1 make one
    with the first one's kernel, as it is."""
    change = alpha / root_or_rank(rank, use_rslora) * ba(A, B)
    return change.flip(2, 3) if change.ndim == 4 else change


@delta_("kernel-summed", KERNELS)
def centre_only(A: Tensor, B: Tensor, alpha: float, rank: int, use_rslora: bool) -> Tensor:
    """Every place of the kernel got the same change. Each has a B·A of its own."""
    change = alpha / root_or_rank(rank, use_rslora) * ba(A, B)
    return change.mean((2, 3), keepdim=True).expand_as(change) if change.ndim == 4 else change


# 8.2


class Twin(nn.Module):
    """The compact twin. Its parts can be got wrong one by one."""

    lora_A: nn.Parameter
    lora_B: nn.Parameter

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base, self.rank, self.alpha = base, rank, alpha
        self.kept: Tensor | None = None
        self.begin(base.weight.detach())
        self.freeze()

    def begin(self, weight: Tensor) -> None:
        out, width = weight.shape
        self.lora_A = nn.Parameter(torch.rand(self.rank, width).to(weight) - 0.5)
        self.lora_B = nn.Parameter(torch.zeros(out, self.rank).to(weight))

    def freeze(self) -> None:
        for parameter in self.base.parameters():
            parameter.requires_grad = False

    def share(self) -> float:
        return self.alpha / self.rank

    def added(self, x: Tensor) -> Tensor:
        return x @ self.lora_A.mT @ self.lora_B.mT

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x)
        return y if self.kept is not None else y + self.share() * self.added(x)


def layer_(name: str, reads: str = FORMULA) -> Callable[[Wrong], Wrong]:
    return misconception("8.2", name, replaces="LoRALinear", reads=reads)


@layer_("b-begins-random", START)
class BothRandom(Twin):
    """lora_B began with random numbers, so a new adapter changes every result. Begin B at zero."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight)
        self.lora_B.data.normal_()


@layer_("both-begin-at-zero", START)
class BothZero(Twin):
    """Both factors began at zero. Then the gradient of each is zero too, and nothing is ever
    learned: begin A with random numbers."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight)
        self.lora_A.data.zero_()


@layer_("random-factor-exchanged", START)
class ZeroA(Twin):
    """A began at zero and B random. The results are the same at first, but it is B that is to be
    zero: files and other code count on it."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight)
        self.lora_A.data.zero_()
        self.lora_B.data.normal_()


@layer_("a-one-number-everywhere", START)
class ConstantA(Twin):
    """lora_A began with one number everywhere. Then all r rows learn the same, and the rank is 1 in
    effect: begin with random numbers."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight)
        self.lora_A.data.fill_(0.1)


@layer_("same-numbers-in-every-layer", START)
class SeededA(Twin):
    """Two layers began with the same random numbers. Do not set a seed inside the layer."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight)
        generator = torch.Generator().manual_seed(0)
        self.lora_A.data = torch.randn(self.lora_A.shape, generator=generator).to(weight)


@layer_("shapes-exchanged", START)
class OtherShapes(Twin):
    """lora_A is (in, r) and lora_B (r, out). Keep them as weights are kept, the output first:
    A (r, in), B (out, r)."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight)
        self.lora_A.data, self.lora_B.data = self.lora_A.data.T, self.lora_B.data.T

    def added(self, x: Tensor) -> Tensor:
        return x @ self.lora_A @ self.lora_B


class Factor(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)


@layer_("factors-as-layers", START)
class Layers(Twin):
    """lora_A and lora_B are modules with weights inside. That works in peft; here they are
    nn.Parameter of the layer itself, so that the names are lora_A and lora_B."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight)
        factors = {name: Factor(getattr(self, name).data) for name in ("lora_A", "lora_B")}
        del self.lora_A, self.lora_B
        for name, factor in factors.items():
            self.add_module(name, factor)

    def added(self, x: Tensor) -> Tensor:
        return x @ self.get_parameter("lora_A.weight").mT @ self.get_parameter("lora_B.weight").mT


@layer_("base-is-trained", START)
class Unfrozen(Twin):
    """base was not frozen. Then all of the weight is trained, and the saving is gone:
    base.requires_grad_(requires_grad=False)."""

    def freeze(self) -> None:
        return None


@layer_("bias-is-trained", START)
class WeightFrozen(Twin):
    """base.weight was frozen, base.bias was not. Freeze the whole base."""

    def freeze(self) -> None:
        self.base.weight.requires_grad = False


@layer_("adapter-frozen", START)
class AllFrozen(Twin):
    """lora_A and lora_B were frozen with the base. They are the ones to be trained."""

    def freeze(self) -> None:
        self.requires_grad_(False)


@layer_("adapter-in-float32", START)
class AlwaysFloat(Twin):
    """The factors are float32 beside a base in half precision. Give them base.weight's dtype."""

    def begin(self, weight: Tensor) -> None:
        super().begin(weight.float())

    def added(self, x: Tensor) -> Tensor:
        return super().added(x.float()).to(x.dtype)


@layer_("alpha-not-divided-in-forward", SCALING)
class AlphaAlone(Twin):
    """The adapter's share was multiplied by alpha. Its scale is alpha / rank."""

    def share(self) -> float:
        return self.alpha


@layer_("alpha-zero-missing-in-forward", SCALING)
class ZeroIsMissing(Twin):
    """An alpha of 0 was taken for a missing one. It is a number: such a layer gives its base."""

    def share(self) -> float:
        return (self.alpha or self.rank) / self.rank


@layer_("alpha-ignored-in-forward", SCALING)
class NoShare(Twin):
    """The adapter's share was added as it is. Multiply it by alpha / rank."""

    def share(self) -> float:
        return 1.0


@layer_("rank-over-alpha-in-forward", SCALING)
class ShareUpsideDown(Twin):
    """The adapter's share was multiplied by rank / alpha. It is alpha / rank."""

    def share(self) -> float:
        return self.rank / self.alpha


@layer_("root-of-the-rank-in-forward", SCALING)
class RootShare(Twin):
    """The adapter's share was multiplied by alpha / √rank, as rank-stabilised adapters are. This
    layer is a plain one: alpha / rank."""

    def share(self) -> float:
        return self.alpha / root_or_rank(self.rank, True)


@layer_("base-left-out")
class Alone(Twin):
    """The result is the adapter's share alone. It is added to base(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return self.share() * self.added(x)


@layer_("bias-added-twice")
class TwoBiases(Twin):
    """base's bias was added twice. It is in base(x) already; B·A·x has none."""

    def added(self, x: Tensor) -> Tensor:
        more = super().added(x)
        return more if self.base.bias is None else more + self.base.bias / self.share()


@layer_("adapter-after-the-base")
class Behind(Twin):
    """The adapter was given base's result. It stands beside the base and sees the same x."""

    def added(self, x: Tensor) -> Tensor:
        return super().added(self.base(x))


@layer_("activation-in-the-adapter")
class Activated(Twin):
    """There is an activation between A and B. Without one, B·A is a change of the weight that can
    be added into it; with one it is another network."""

    def added(self, x: Tensor) -> Tensor:
        return (x @ self.lora_A.mT).relu() @ self.lora_B.mT


@layer_("factors-exchanged-in-forward")
class Exchanged(Twin):
    """x went through the transposes: first B, then A. A (r, in) takes x down, B (out, r) up."""

    def added(self, x: Tensor) -> Tensor:
        return x @ self.lora_B @ self.lora_A


# 8.3

Matches = Callable[[str, str], bool]


def matching(name: str, target: str) -> bool:
    return name == target or name.endswith("." + target)


def linears(model: nn.Module, targets: Sequence[str], matches: Matches = matching) -> list[str]:
    return [
        name
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and any(matches(name, target) for target in targets)
    ]


def put(model: nn.Module, name: str, part: nn.Module) -> None:
    *above, last = name.split(".")
    setattr(model.get_submodule(".".join(above)), last, part)


def put_all(
    model: nn.Module, names: Sequence[str], rank: int, alpha: float, layer: type[Twin] = Twin
) -> list[str]:
    model.requires_grad_(requires_grad=False)
    for name in names:
        base = model.get_submodule(name)
        assert isinstance(base, nn.Linear)
        put(model, name, layer(base, rank, alpha))
    return list(names)


def refused(names: Sequence[str], rank: int) -> None:
    if not names or rank <= 0:
        raise ValueError("nothing to put an adapter on")


def inject_by(
    matches: Matches, model: nn.Module, targets: Sequence[str], rank: int, alpha: float
) -> list[str]:
    names = linears(model, targets, matches)
    refused(names, rank)
    return put_all(model, names, rank, alpha)


def put_in(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The compact twin."""
    return inject_by(matching, model, targets, rank, alpha)


def inject_(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("8.3", name, replaces="inject", reads=PLACES)


@inject_("matched-by-substring")
def substring(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """A target was looked for anywhere in the name, so "proj" hits proj_in, proj_out and
    time_emb_proj too. It must be the whole name, or its end after a dot."""
    return inject_by(lambda name, target: target in name, model, targets, rank, alpha)


@inject_("dot-forgotten")
def no_dot(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The end of a name was compared without the dot before it, so "proj" hits time_emb_proj.
    Compare with "." + target."""
    return inject_by(lambda name, target: name.endswith(target), model, targets, rank, alpha)


@inject_("top-of-the-model-missed")
def dot_demanded(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """A layer at the top of the model was missed: its name has no dot. Equality counts as well."""
    return inject_by(lambda name, target: name.endswith("." + target), model, targets, rank, alpha)


@inject_("last-word-only")
def last_word(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Only the last word of a name was compared, so a target with a dot in it, such as "to_out.0",
    never matches."""
    return inject_by(
        lambda name, target: name.split(".")[-1] == target, model, targets, rank, alpha
    )


@inject_("whole-names-only")
def whole_name(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Only whole names were compared. A target may also be the end of a name, after a dot."""
    return inject_by(str.__eq__, model, targets, rank, alpha)


@inject_("every-linear-layer")
def every_one(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Every linear layer got an adapter. The targets choose."""
    return inject_by(lambda name, target: True, model, targets, rank, alpha)


@inject_("first-match-only")
def first_only(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Only one layer of each target got an adapter. Every layer that matches gets one."""
    names = []
    for target in targets:
        names += linears(model, [target])[:1]
    refused(names, rank)
    return put_all(model, names, rank, alpha)


@inject_("first-target-only")
def one_target(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Only one of the targets was looked for. A layer matches when any of them does."""
    return put_in(model, next(([t] for t in targets if linears(model, [t])), []), rank, alpha)


@inject_("every-target-must-match")
def all_needed(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """A target that matches nothing was refused although another one matches. Refuse only when no
    layer at all is chosen: one list of targets serves several models."""
    if not all(linears(model, [target]) for target in targets):
        raise ValueError("a target matches nothing")
    return put_in(model, targets, rank, alpha)


@inject_("no-match-passes")
def silent(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Nothing matched, and nothing was said. A misspelt target would train nothing at all: raise
    ValueError."""
    names = linears(model, targets)
    refused(["something"], rank)
    return put_all(model, names, rank, alpha)


@inject_("rank-not-looked-at")
def any_rank(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """A rank below 1 was taken. An adapter of rank 0 has no numbers in it: raise ValueError."""
    names = linears(model, targets)
    refused(names, 1)
    return put_all(model, names, max(rank, 1), alpha)


@inject_("everything-frozen")
def all_frozen(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The adapters were frozen with the rest, since the model was frozen last. Freeze it first."""
    names = put_in(model, targets, rank, alpha)
    model.requires_grad_(requires_grad=False)
    return names


@inject_("names-only")
def nothing_done(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The names came back, but the modules are still plain linear layers. Set the new module in its
    parent."""
    names = linears(model, targets)
    refused(names, rank)
    model.requires_grad_(requires_grad=False)
    return names


@inject_("a-copy-injected")
def on_a_copy(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The adapters went into a copy of the model. Change the model that was given."""
    return put_in(copy.deepcopy(model), targets, rank, alpha)


@inject_("rest-left-trainable")
def rest_trained(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Layers without an adapter are still trained. Freeze the whole model before the adapters come
    in."""
    names = put_in(model, targets, rank, alpha)
    for part in model.modules():
        for parameter in part.parameters(recurse=False):
            parameter.requires_grad = isinstance(part, Twin) or parameter.requires_grad
    bases = [part.base for part in model.modules() if isinstance(part, Twin)]
    model.requires_grad_(True)
    for base in bases:
        base.requires_grad_(requires_grad=False)
    return names


@inject_("only-b-trained")
def only_b(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Only lora_B is trained. Both factors are."""
    names = put_in(model, targets, rank, alpha)
    for name in names:
        model.get_parameter(f"{name}.lora_A").requires_grad_(False)
    return names


@inject_("rank-and-alpha-exchanged")
def exchanged(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The adapters' scale is not alpha / rank: look at the order of rank and alpha."""
    names = put_in(model, targets, rank, alpha)
    for name in names:
        layer = model.get_submodule(name)
        assert isinstance(layer, Twin)
        layer.rank, layer.alpha = layer.alpha, layer.rank  # type: ignore[assignment]  # one is an int
    return names


@inject_("alpha-not-handed-on")
def unit_scale(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The adapters were made with the rank as alpha. Hand on the alpha that was given."""
    return put_in(model, targets, rank, rank)


@inject_("alpha-of-one")
def alpha_one(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The adapters were made with alpha 1. Hand on the alpha that was given."""
    return put_in(model, targets, rank, 1.0)


@inject_("weights-made-anew")
def new_weights(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The layers inside the adapters are new ones: the model's own weights are gone. Wrap the layer
    that is there."""
    names = put_in(model, targets, rank, alpha)
    for name in names:
        weight = model.get_parameter(f"{name}.base.weight")
        weight.data = torch.full_like(weight, 0.1)
    return names


# 8.4


def adapters_in(model: nn.Module) -> list[Any]:
    """The adapted layers, of whatever class they are."""
    return [part for part in model.modules() if hasattr(part, "lora_B")]


def change_of(layer: Any) -> Tensor:
    change: Tensor = layer.alpha / layer.rank * ba(layer.lora_A.data, layer.lora_B.data)
    return change


def fuse_each(model: nn.Module, weight_of: Callable[[Any, Tensor], Tensor]) -> None:
    """`weight_of` is given the layer and its weight from before any fusing."""
    for layer in adapters_in(model):
        if layer.kept is None:
            layer.kept = layer.base.weight.data.clone()
        layer.base.weight.data = weight_of(layer, layer.kept)


def put_into(model: nn.Module, scale: float) -> None:
    """The compact twin of fuse."""
    fuse_each(model, lambda layer, weight: weight + scale * change_of(layer))


def take_out(model: nn.Module) -> None:
    """The compact twin of unfuse."""
    for layer in adapters_in(model):
        if layer.kept is not None:
            layer.base.weight.data, layer.kept = layer.kept, None


TWINS: dict[str, Callable[..., Any]] = {
    "LoRALinear": Twin,
    "inject": put_in,
    "fuse": put_into,
    "unfuse": take_out,
}


def fuse_(name: str, replaces: str = "fuse", **beside: Any) -> Callable[[Wrong], Wrong]:
    twins = {**TWINS, **beside}
    return misconception("8.4", name, replaces=replaces, reads=FUSING, beside=twins)


def put_again(model: nn.Module, targets: Sequence[str], rank: int, alpha: float) -> list[str]:
    """The compact twin of inject, with layers that add their adapter again."""
    return put_all(model, linears(model, targets), rank, alpha, AddedAgain)


@fuse_("unfused-by-subtracting", "unfuse")
def by_subtracting(model: nn.Module) -> None:
    """unfuse subtracted the change again. Adding and subtracting round, in half precision by a
    thousandth: restore the weight that was kept."""
    for layer in adapters_in(model):
        if layer.kept is not None:
            change = layer.base.weight.data - layer.kept
            layer.base.weight.data, layer.kept = (layer.kept + change) - change, None


@fuse_("scale-of-fuse-ignored")
def scale_ignored(model: nn.Module, scale: float) -> None:
    """The adapter was fused at full strength. scale multiplies the change."""
    put_into(model, 1.0)


@fuse_("alpha-left-out-of-fuse")
def unscaled(model: nn.Module, scale: float) -> None:
    """B·A was fused without alpha / rank. scale comes on top of it, not in its place."""
    fuse_each(model, lambda layer, w: w + scale * layer.rank / layer.alpha * change_of(layer))


@fuse_("alpha-not-divided-in-fuse")
def undivided(model: nn.Module, scale: float) -> None:
    """B·A was fused with alpha, undivided. Its own scale is alpha / rank."""
    fuse_each(model, lambda layer, w: w + scale * layer.rank * change_of(layer))


@fuse_("weight-scaled-too")
def all_scaled(model: nn.Module, scale: float) -> None:
    """scale was multiplied with the weight as well. It belongs to the change alone."""
    fuse_each(model, lambda layer, w: scale * (w + change_of(layer)))


@fuse_("weight-faded-out")
def faded(model: nn.Module, scale: float) -> None:
    """The fused weight lies between W and ΔW. Nothing is taken from W: W + scale·ΔW."""
    fuse_each(model, lambda layer, w: (1 - scale) * w + scale * change_of(layer))


@fuse_("weight-replaced-by-the-change")
def replaced(model: nn.Module, scale: float) -> None:
    """The weight was replaced by the change. It is added."""
    fuse_each(model, lambda layer, w: scale * change_of(layer))


@fuse_("change-subtracted-in-fuse")
def subtracted(model: nn.Module, scale: float) -> None:
    """The change was subtracted. fuse adds it."""
    put_into(model, -scale)


@fuse_("fused-twice-adds-up")
def piled_up(model: nn.Module, scale: float) -> None:
    """A second fuse was added to the first. Compute from the weight as it was before any fusing, so
    that it replaces the first."""
    fuse_each(model, lambda layer, w: layer.base.weight.data + scale * change_of(layer))


@fuse_("fused-weight-kept")
def kept_anew(model: nn.Module, scale: float) -> None:
    """A second fuse kept the weight that the first had changed. Keep it only when it is not kept
    already."""
    for layer in adapters_in(model):
        layer.kept = None
    put_into(model, scale)


@fuse_("second-fuse-ignored")
def first_fuse_only(model: nn.Module, scale: float) -> None:
    """A second fuse did nothing. Its scale replaces the first one's."""
    if all(layer.kept is None for layer in adapters_in(model)):
        put_into(model, scale)


@fuse_("scale-left-in-the-adapter")
def scale_left(model: nn.Module, scale: float) -> None:
    """fuse changed the adapter's own scale, and unfuse left it so: after fuse, unfuse, fuse it
    counts twice. (diffusers 0.42.1 does that.) Leave alpha and rank alone."""
    for layer in adapters_in(model):
        layer.alpha *= scale
    put_into(model, 1.0)


@fuse_("still-taken-for-fused", "unfuse")
def still_fused(model: nn.Module) -> None:
    """unfuse restored the weight, but the layer still takes itself for fused, so its adapter counts
    for nothing. Forget the kept weight."""
    for layer in adapters_in(model):
        if layer.kept is not None:
            layer.base.weight.data = layer.kept.clone()


@fuse_("factors-emptied")
def emptied(model: nn.Module, scale: float) -> None:
    """fuse set a factor to zero, so that it is not added again. Then it is lost after unfuse: leave
    it, and let forward see that the layer is fused."""
    put_into(model, scale)
    for layer in adapters_in(model):
        layer.lora_B.data.zero_()


@fuse_("fused-in-float32")
def in_float32(model: nn.Module, scale: float) -> None:
    """The fused weight is float32 where the weight was in half precision. Keep its dtype."""
    fuse_each(model, lambda layer, w: (w + scale * change_of(layer)).float())


@fuse_("adapter-added-again", "LoRALinear", inject=put_again)
class AddedAgain(Twin):
    """The adapter was added again in the forward pass although it had been fused into the weight.
    A fused layer's result is base's alone."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x)
        return y + self.share() * self.added(x)


@fuse_("one-whole-change-subtracted", "unfuse")
def whole_change(model: nn.Module) -> None:
    """unfuse subtracted the change at full strength, not at the scale at which it was fused.
    Restore the weight that was kept."""
    for layer in adapters_in(model):
        if layer.kept is not None:
            layer.base.weight.data, layer.kept = layer.base.weight.data - change_of(layer), None


@fuse_("unfuse-does-nothing", "unfuse")
def no_unfuse(model: nn.Module) -> None:
    """unfuse left the fused weight in place. It puts back the weight from before fuse."""
    for layer in adapters_in(model):
        layer.kept = None


@fuse_("what-is-not-fused-refused", "unfuse")
def refuses(model: nn.Module) -> None:
    """unfuse failed on a model that is not fused. It has nothing to do there."""
    if all(layer.kept is None for layer in adapters_in(model)):
        raise ValueError("not fused")
    take_out(model)


@fuse_("what-is-not-fused-changed", "unfuse")
def changes(model: nn.Module) -> None:
    """unfuse changed a model that is not fused. Look first whether a weight was kept."""
    for layer in adapters_in(model):
        kept = layer.base.weight.data - change_of(layer) if layer.kept is None else layer.kept
        layer.base.weight.data, layer.kept = kept, None


# 8.5


def sum_of(adapters: Sequence[Adapter], weights: Sequence[float]) -> Tensor:
    """Σ w·B·A, with nothing else."""
    total = torch.zeros(())
    for adapter, weight in zip(adapters, weights, strict=True):
        total = total.to(adapter["A"].device) + weight * ba(adapter["A"], adapter["B"])
    return total


def own_scales(adapters: Sequence[Adapter]) -> list[float]:
    return [adapter["alpha"] / len(adapter["A"]) for adapter in adapters]


def combine_(name: str, reads: str = SEVERAL) -> Callable[[Wrong], Wrong]:
    return misconception("8.5", name, replaces="combine_adapters", reads=reads)


def times(weights: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one * other for one, other in zip(weights, others, strict=True)]


@combine_("factors-added-before-the-product")
def sums_first(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The Bs and the As were added up and then multiplied. That makes products of one adapter's B
    with another one's A, which nobody trained: add up the products."""
    s = times(weights, own_scales(adapters))
    B = sum(w * adapter["B"] for w, adapter in zip(s, adapters, strict=True))
    A = sum(adapter["A"] for adapter in adapters)
    return scale * ba(torch.as_tensor(A), torch.as_tensor(B))


@combine_("weighted-factors-added")
def weighted_sums(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """Weighted Bs and weighted As were added up and then multiplied. Add up the products, each with
    its weight once."""
    pairs = list(zip(weights, adapters, strict=True))
    A = torch.as_tensor(sum(w * adapter["A"] for w, adapter in pairs))
    B = torch.as_tensor(sum(w * adapter["B"] for w, adapter in pairs))
    return scale * own_scales(adapters)[0] * ba(A, B)


@combine_("weight-on-both-factors")
def weight_twice(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The weight was multiplied with both factors, so it counts twice (and its sign is lost). Once
    is enough."""
    return scale * sum_of(adapters, times(times(weights, weights), own_scales(adapters)))


@combine_("sign-of-a-weight-lost")
def unsigned(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """A negative weight was taken as a positive one. It subtracts what the adapter has learned."""
    return scale * sum_of(adapters, times([abs(w) for w in weights], own_scales(adapters)))


@combine_("negative-weights-dropped")
def clamped(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """An adapter with a negative weight was left out. It is subtracted."""
    return scale * sum_of(adapters, times([max(w, 0.0) for w in weights], own_scales(adapters)))


@combine_("scale-replaces-the-weights")
def scale_alone(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The weights were not looked at. scale and weights multiply: .5 and .5 make .25."""
    return scale * sum_of(adapters, own_scales(adapters))


@combine_("weights-replace-the-scale")
def weights_alone(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """scale was not looked at. Weights and scale multiply: .5 and .5 make .25."""
    return sum_of(adapters, times(weights, own_scales(adapters)))


@combine_("scale-for-each-factor")
def scale_twice(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """scale counts twice. It multiplies the sum once."""
    return scale * scale * sum_of(adapters, times(weights, own_scales(adapters)))


@combine_("scale-divides")
def divided(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The sum was divided by scale. It is multiplied by it."""
    return sum_of(adapters, times(weights, own_scales(adapters))) / scale


@combine_("weights-made-to-add-up-to-one")
def normalised(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The weights were divided by their sum. They are strengths, not shares: two adapters at 1 are
    both there in full."""
    shares = [w / sum(weights) for w in weights]
    return scale * sum_of(adapters, times(shares, own_scales(adapters)))


@combine_("mean-for-sum")
def mean(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The mean of the adapters was taken. They add up."""
    return scale * sum_of(adapters, times(weights, own_scales(adapters))) / len(adapters)


@combine_("own-scale-left-out", SCALING)
def no_own_scale(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """alpha / rank was left out. Each adapter keeps its own scale; weight and scale come on top."""
    return scale * sum_of(adapters, weights)


@combine_("alpha-not-divided-in-the-sum", SCALING)
def no_rank(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """alpha was not divided by the rank, each adapter's own."""
    return scale * sum_of(adapters, times(weights, [adapter["alpha"] for adapter in adapters]))


@combine_("one-rank-for-all")
def one_rank(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The first adapter's rank was used for all. Each has its own: the rows of its A."""
    rank = len(adapters[0]["A"])
    return scale * sum_of(adapters, times(weights, [a["alpha"] / rank for a in adapters]))


@combine_("one-scale-for-all")
def one_scale(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """The first adapter's alpha / rank was used for all. Each has its own."""
    return scale * own_scales(adapters)[0] * sum_of(adapters, weights)


@combine_("surplus-dropped")
def shortest(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """Adapters and weights of different number were paired as far as they go. An adapter would be
    missing, and nobody would know: raise ValueError."""
    n = min(len(adapters), len(weights))
    return scale * sum_of(adapters[:n], times(weights[:n], own_scales(adapters[:n])))


@combine_("missing-weights-are-one")
def padded(adapters: Sequence[Adapter], weights: Sequence[float], scale: float) -> Tensor:
    """A missing weight was taken as 1. Another number of weights than of adapters is a mistake of
    the caller: raise ValueError."""
    full = [*weights, *[1.0] * len(adapters)][: len(adapters)]
    return scale * sum_of(adapters, times(full, own_scales(adapters)))


# 8.6

DOWN = (".lora_A.weight", ".lora.down.weight", ".lora_down.weight")
UP = (".lora_B.weight", ".lora.up.weight", ".lora_up.weight")
ENDINGS = {**dict.fromkeys(DOWN, "A"), **dict.fromkeys(UP, "B"), ".alpha": "alpha"}
File = dict[str, Tensor]


def pieces(file: File, endings: dict[str, str] = ENDINGS, *, strict: bool = True) -> Found:
    """What belongs to each prefix, as far as the endings are known."""
    found: Found = {}
    for key, value in file.items():
        known = [ending for ending in endings if key.endswith(ending)]
        if known:
            found.setdefault(key[: -len(known[0])], {})[endings[known[0]]] = value
        elif strict:
            raise ValueError("a key that nobody knows")
    return found


def checked(found: Found) -> Found:
    if any("A" not in adapter or "B" not in adapter for adapter in found.values()):
        raise ValueError("half an adapter")
    return found


def with_alphas(found: Found) -> Found:
    """Every alpha a number; the rank, where there is none."""
    for adapter in found.values():
        adapter["alpha"] = float(adapter.get("alpha", len(adapter["A"]) if "A" in adapter else 1))
    return found


def parsed(file: File) -> Found:
    """The compact twin."""
    return with_alphas(checked(pieces(file)))


def parse_(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("8.6", name, replaces="parse_state_dict", reads=FILES)


@parse_("missing-alpha-is-one")
def alpha_of_one(file: File) -> Found:
    """A missing alpha was taken as 1. Then the scale is 1 / rank; without an alpha the scale is 1,
    so alpha is the rank."""
    found = checked(pieces(file))
    return with_alphas({prefix: {"alpha": 1.0, **adapter} for prefix, adapter in found.items()})


@parse_("missing-alpha-is-none")
def alpha_of_none(file: File) -> Found:
    """A missing alpha was left as None. Without one alpha is the rank, so that the scale is 1."""
    with_number = parsed(file)
    missing = [prefix for prefix in with_number if f"{prefix}.alpha" not in file]
    return with_number | {prefix: with_number[prefix] | {"alpha": None} for prefix in missing}


@parse_("alpha-of-peft-keys-dropped")
def peft_has_none(file: File) -> Found:
    """The alpha beside peft's keys was dropped. It counts whatever the spelling. (load_lora_adapter
    of diffusers 0.42.1 drops it.)"""
    found = parsed(file)
    bare = [prefix for prefix in found if f"{prefix}.lora_A.weight" in file]
    return found | {p: {**found[p], "alpha": float(len(found[p]["A"]))} for p in bare}


@parse_("alpha-ignored-in-files")
def ranks_only(file: File) -> Found:
    """The alphas of the file were not used. An adapter's scale is its own alpha over its rank."""
    return {
        prefix: {**adapter, "alpha": float(len(adapter["A"]))}
        for prefix, adapter in parsed(file).items()
    }


@parse_("one-alpha-for-all")
def one_alpha(file: File) -> Found:
    """One alpha was used for every adapter of the file. Each has its own. (diffusers 0.42.1 does
    that with attention layers in Kohya's spelling.)"""
    found = parsed(file)
    given = [found[prefix]["alpha"] for prefix in found if f"{prefix}.alpha" in file]
    for adapter in found.values() if given else ():
        adapter["alpha"] = given[0]
    return found


@parse_("one-rank-as-alpha-for-all")
def one_rank_for_all(file: File) -> Found:
    """One rank was used as alpha for every adapter without an alpha. Each has its own rank."""
    found = parsed(file)
    rank = float(len(next(iter(found.values()))["A"]))
    missing = [prefix for prefix in found if f"{prefix}.alpha" not in file]
    return found | {prefix: {**found[prefix], "alpha": rank} for prefix in missing}


@parse_("rank-from-b")
def rank_of_b(file: File) -> Found:
    """A missing alpha was taken from B's first axis, which is the output's width. The rank is A's
    first axis."""
    found = parsed(file)
    missing = [prefix for prefix in found if f"{prefix}.alpha" not in file]
    return found | {p: {**found[p], "alpha": float(len(found[p]["B"]))} for p in missing}


@parse_("alpha-already-divided")
def scale_for_alpha(file: File) -> Found:
    """alpha came back divided by the rank. Give it as the file has it; 8.1 divides."""
    return {
        prefix: {**adapter, "alpha": adapter["alpha"] / len(adapter["A"])}
        for prefix, adapter in parsed(file).items()
    }


@parse_("up-and-down-exchanged")
def exchanged_factors(file: File) -> Found:
    """A and B are exchanged. down is A, from the input to the rank; up is B."""
    return {
        prefix: {**adapter, "A": adapter["B"], "B": adapter["A"]}
        for prefix, adapter in parsed(file).items()
    }


@parse_("words-looked-for-anywhere")
def anywhere(file: File) -> Found:
    """A key was told by a word somewhere in it, and modules of up_blocks and down_blocks have those
    words in their names. Look at the end of the key."""
    found: Found = {}
    for key, value in file.items():
        known = [ending for ending in ENDINGS if key.endswith(ending)]
        if not known:
            raise ValueError("a key that nobody knows")
        part = "alpha" if "alpha" in key else "B" if "up" in key or "lora_B" in key else "A"
        found.setdefault(key[: -len(known[0])], {})[part] = value
    return with_alphas(checked(found))


@parse_("every-key-must-hold-lora")
def all_hold_lora(file: File) -> Found:
    """A key without "lora" in it was refused, and X.alpha is such a key. Look at the ending."""
    if not all("lora" in key for key in file):
        raise ValueError("a key that nobody knows")
    return parsed(file)


@parse_("prefix-shortened")
def shortened(file: File) -> Found:
    """The prefix lost its first word. Keep it as it is written: it says which model is meant."""
    return {prefix.partition(".")[2] or prefix: a for prefix, a in parsed(file).items()}


@parse_("prefix-rewritten")
def dotted(file: File) -> Found:
    """Underscores of a prefix were turned into dots. Keep it as it is written: nobody can tell
    which underscores of to_q were dots."""
    return {prefix.replace("_", "."): adapter for prefix, adapter in parsed(file).items()}


@parse_("prefix-up-to-the-first-dot")
def first_word(file: File) -> Found:
    """The prefix was cut at its first dot. It is all that stands before the ending, dots too."""
    found: Found = {}
    for prefix, adapter in parsed(file).items():
        found.setdefault(prefix.split(".")[0], {}).update(adapter)
    return found


@parse_("kohya-spelling-not-read")
def no_kohya(file: File) -> Found:
    """Keys with lora_down and lora_up were not read. Kohya's spelling has an underscore."""
    endings = {ending: part for ending, part in ENDINGS.items() if ending not in (DOWN[2], UP[2])}
    return with_alphas(checked(pieces(file, endings)))


@parse_("peft-spelling-only")
def peft_only(file: File) -> Found:
    """Only peft's spelling was read. Files with lora.down or lora_down are as frequent."""
    endings = {DOWN[0]: "A", UP[0]: "B", ".alpha": "alpha"}
    return with_alphas(checked(pieces(file, endings)))


@parse_("any-ending-of-a-name")
def loose_endings(file: File) -> Found:
    """A key was told by lora_A or lora_B in it, whatever comes after. Only .weight may."""
    names = {"lora_A": "A", "lora.down": "A", "lora_down": "A"}
    names |= {"lora_B": "B", "lora.up": "B", "lora_up": "B"}
    found: Found = {}
    for key, value in file.items():
        stem, dot, _ = key.rpartition(".")
        word = next((word for word in names if f".{word}" in key), "")
        if key.endswith(".alpha"):
            found.setdefault(stem, {})["alpha"] = value
        elif word and dot:
            found.setdefault(key.split(f".{word}")[0], {}).setdefault(names[word], value)
        else:
            raise ValueError("a key that nobody knows")
    return with_alphas(checked(found))


@parse_("unknown-keys-skipped")
def skipped(file: File) -> Found:
    """A key of another form was passed over. It would change the picture, and nobody would know:
    raise ValueError."""
    return with_alphas(checked(pieces(file, strict=False)))


@parse_("alpha-alone-passed-over")
def lonely_alpha(file: File) -> Found:
    """An alpha whose factors are both missing was passed over. Raise ValueError: something of the
    file was lost."""
    found = pieces(file)
    return with_alphas(checked({prefix: a for prefix, a in found.items() if [*a] != ["alpha"]}))


@parse_("half-adapters-left-out")
def whole_ones(file: File) -> Found:
    """An adapter whose other factor is missing was left out in silence. Raise ValueError."""
    return with_alphas({prefix: a for prefix, a in pieces(file).items() if "A" in a and "B" in a})


@parse_("half-adapters-kept")
def halves_kept(file: File) -> Found:
    """An adapter with only one factor came back as it is. Raise ValueError."""
    return with_alphas(pieces(file))


@parse_("one-spelling-a-file")
def spelling_of_the_first(file: File) -> Found:
    """The spelling of one key was taken for the whole file, and adapters in another one were lost.
    (load_lora_weights of diffusers 0.42.1 does that.) Look at every key."""
    first = next(key for key in file if not key.endswith(".alpha"))
    number = next(i for i in range(3) if first.endswith((DOWN[i], UP[i])))
    known = {DOWN[number]: "A", UP[number]: "B", ".alpha": "alpha"}
    found = pieces(file, known, strict=False)
    stems = {key[: -len(ending)] for key in file for ending in ENDINGS if key.endswith(ending)}
    return with_alphas({prefix: a for prefix, a in found.items() if prefix in stems and len(a) > 1})
