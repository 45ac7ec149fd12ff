"""Lab 08: the learner's adapters against those that diffusers and peft put into a UNet."""

# ruff: noqa: N803, N806  (A and B are capital letters in the paper and in every file)

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_form,
    assert_matches,
    assert_matches_formula,
    assert_number,
    assert_raises,
    assert_tensor,
    form_of,
    given,
    set_state,
    state_of,
    todo,
    with_gradients,
)
from infralens.suites.diffusers.lab_08_lora_injection_reading import given as ours
from infralens.suites.diffusers.lab_08_lora_injection_reading import tiny
from infralens.suites.releases import since

BESIDE = Path(__file__).with_name("given.py").read_text(encoding="utf-8")
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
HALF = ("float16", "bfloat16")
State = dict[str, Tensor]


def draw_alpha(draw: Draw, rank: int) -> float:
    """A number at which alpha, alpha / rank, alpha / √rank and 1 all lie well apart."""
    factor = draw.choice([(0.3, 0.45), (1.6, 1.9), (2.2, 2.8)])
    return float(f"{rank * draw.uniform(*factor):.4g}")


def draw_factors(draw: Draw, out: int, width: int, rank: int) -> tuple[Tensor, Tensor]:
    """A (rank, width) and B (out, rank); their product is about as large as a weight."""
    return draw.latents(rank, width) / math.sqrt(width), draw.latents(out, rank) / math.sqrt(rank)


def product(A: Tensor, B: Tensor, scaling: float) -> Tensor:
    """Hu et al. 2021, section 4.1, in float64."""
    return scaling * torch.einsum("or,ri...->oi...", B.double().flatten(1), A.double())


# 8.1


def delta_of_peft(base: nn.Module, A: Tensor, B: Tensor, alpha: float, rslora: bool) -> Any:
    """get_delta_weight of the layer that peft makes of this one."""
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=len(A), lora_alpha=alpha, use_rslora=rslora, target_modules=["0"])
    layer = inject_adapter_in_model(config, nn.Sequential(base).to(A.device))[0]
    tiny.set_adapter(layer, A, B)
    return layer.get_delta_weight("default")


def scaling_of(alpha: float, rank: int, rslora: bool) -> float:
    return alpha / (math.sqrt(rank) if rslora else rank)


@todo("8.1", guards="wide, tall and square layers of a usual rank")
@pytest.mark.parametrize("scaling", ["by the rank", "by its root"])
@pytest.mark.parametrize("shape", ["wide", "tall", "square"])
def test_a_linear_layers_change(candidate: Any, draw: Draw, shape: str, scaling: str) -> None:
    """lora_delta is what peft's get_delta_weight gives for a linear layer."""
    rank, rslora = draw.choice([2, 3, 5, 6]), scaling == "by its root"
    small, large = draw.integer(7, 10), draw.integer(12, 16)
    out, width = {"wide": (small, large), "tall": (large, small), "square": (rank, rank)}[shape]
    (A, B), alpha = draw_factors(draw, out, width, rank), draw_alpha(draw, rank)
    assert_matches(
        candidate.lora_delta(A, B, alpha, rank, rslora),
        library=lambda: delta_of_peft(nn.Linear(width, out), A, B, alpha, rslora),
        truth=lambda: product(A, B, scaling_of(alpha, rank, rslora)),
        what=f"ΔW for {width} → {out}, rank {rank}, alpha {alpha}",
    )


@todo("8.1", guards="kernels of every shape")
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("channels", ["different", "equal"])
def test_a_convolutions_change(
    candidate: Any, draw: Draw, channels: str, kernel: tuple[int, int]
) -> None:
    """lora_delta is what peft's get_delta_weight gives for a convolution."""
    rank, out = draw.choice([2, 3, 5]), draw.integer(6, 9)
    width = out if channels == "equal" else out + draw.choice([2, 3])
    A = draw.latents(rank, width, *kernel) / math.sqrt(width)
    B, alpha = draw.latents(out, rank, 1, 1), draw_alpha(draw, rank)
    rslora = kernel == (3, 5)
    assert_matches(
        candidate.lora_delta(A, B, alpha, rank, rslora),
        library=lambda: delta_of_peft(nn.Conv2d(width, out, kernel), A, B, alpha, rslora),
        truth=lambda: product(A, B, scaling_of(alpha, rank, rslora)),
        what=f"ΔW for a convolution {width} → {out} with a kernel of {kernel}",
    )


@todo("8.1", guards="rank 1, where no axis may be lost, an alpha below zero, and half precision")
@pytest.mark.parametrize("kind", ["linear", "convolution"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_change_of_rank_one(candidate: Any, draw: Draw, dtype: str, kind: str) -> None:
    """A rank of 1 and a negative alpha are numbers as any other; ΔW has the factors' dtype."""
    kernel = () if kind == "linear" else (3, 3)
    A = draw.latents(1, 9, *kernel, dtype=DTYPES[dtype])
    B = draw.latents(7, 1, *(1 for _ in kernel), dtype=DTYPES[dtype])
    alpha = -draw.uniform(1.5, 2.5)
    base = nn.Linear(9, 7) if kind == "linear" else nn.Conv2d(9, 7, 3)
    assert_matches(
        candidate.lora_delta(A, B, alpha, 1, False),
        library=lambda: delta_of_peft(base, A, B, alpha, False),
        truth=lambda: product(A, B, alpha),
        what=f"ΔW of rank 1, alpha {alpha}, in {dtype}",
    )


@todo("8.1")
@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_an_alpha_of_zero_is_a_number(candidate: Any, draw: Draw, kind: str) -> None:
    """At alpha 0 nothing is changed; it is no alpha that is missing."""
    rank, rslora = draw.choice([2, 3]), draw.choice([True, False])
    kernel = () if kind == "linear" else (3, 3)
    A, B = draw.latents(rank, 9, *kernel), draw.latents(7, rank, *(1 for _ in kernel))
    base = nn.Linear(9, 7) if kind == "linear" else nn.Conv2d(9, 7, 3)
    assert_equals(
        candidate.lora_delta(A, B, 0.0, rank, rslora),
        library=lambda: delta_of_peft(base, A, B, 0.0, rslora).detach(),
        what="ΔW at alpha 0",
    )


# 8.2

BIAS = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])


def draw_linear(draw: Draw, bias: bool, dtype: torch.dtype = torch.float32) -> State:
    """The weights of a linear layer, twice as wide as long or the other way round."""
    small, large = draw.integer(6, 9), draw.integer(12, 15)
    width, out = draw.choice([(small, large), (large, small)])
    weight = (draw.latents(out, width) / math.sqrt(width)).to(dtype)
    return {"weight": weight, **({"bias": draw.latents(out).to(dtype)} if bias else {})}


def fresh_layer(candidate: Any, weights: State, rank: int, alpha: float) -> Any:
    """The learner's LoRALinear around a linear layer with these weights."""
    return candidate.LoRALinear(given(candidate, BESIDE).linear(weights), rank, alpha)


@todo("8.2", guards="the very bits, which a tolerance would not see")
@BIAS
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_fresh_adapter_changes_nothing(
    candidate: Any, draw: Draw, dtype: str, bias: bool
) -> None:
    """A new LoRALinear gives what its base gives, to the bit."""
    weights = draw_linear(draw, bias, DTYPES[dtype])
    x = draw.latents(3, 5, weights["weight"].shape[1], dtype=DTYPES[dtype])
    beside, rank = given(candidate, BESIDE), draw.integer(2, 4)
    base = beside.linear(weights)
    plain = beside.called(base, x)
    exact = {name: weight.double() for name, weight in weights.items()}
    assert_matches_formula(
        plain,
        computed=lambda: ours.linear(weights)(x),
        truth=lambda: ours.linear(exact)(x.double()),
        what="the result of the base alone",
    )
    mine = candidate.LoRALinear(base, rank, draw_alpha(draw, rank))
    assert_equals(mine(x), value=plain, what="the result of a new adapter")


def beginning(name: str, first: Tensor, second: Tensor) -> str:
    """How a factor begins, from two layers that are made alike."""
    one, other = (factor.double().flatten() for factor in (first, second))
    if not one.any():
        return f"{name} zero"
    if bool((one == one[0]).all()):
        return f"{name} one number everywhere"
    if float((one == 0).double().mean()) > 0.5:
        return f"{name} zero for the most part"
    if torch.equal(one, other):
        return f"{name} the same numbers in both layers"
    if torch.linalg.matrix_rank(first.double()) < min(first.shape):
        return f"{name} with rows that repeat each other"
    return f"{name} random"


@todo("8.2")
def test_one_factor_begins_random_and_one_at_zero(candidate: Any, draw: Draw) -> None:
    """lora_B is zero, lora_A is random, and other numbers in another layer."""
    weights, rank = draw_linear(draw, True), draw.integer(2, 4)
    alpha, (out, width) = draw_alpha(draw, rank), weights["weight"].shape
    like = {"lora_A": torch.empty(rank, width), "lora_B": torch.empty(out, rank)}
    one, other = (
        tensors_like(tensors_of(fresh_layer(candidate, weights, rank, alpha)), like, "a new layer")
        for _ in range(2)
    )
    assert_equals(
        ", ".join(beginning(name, one[name], other[name]) for name in like),
        value="lora_A random, lora_B zero",
        what="how two new layers begin",
    )


@todo("8.2")
@BIAS
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_parameters_of_a_layer(candidate: Any, draw: Draw, dtype: str, bias: bool) -> None:
    """base is frozen; lora_A (r, in) and lora_B (out, r) are trained, in base's dtype."""
    weights, rank = draw_linear(draw, bias, DTYPES[dtype]), draw.integer(2, 4)
    mine = fresh_layer(candidate, weights, rank, draw_alpha(draw, rank))
    out, width = weights["weight"].shape
    wanted = {
        **{f"base.{name}": f"{tuple(w.shape)}, {dtype}, frozen" for name, w in weights.items()},
        "lora_A": f"({rank}, {width}), {dtype}, trained",
        "lora_B": f"({out}, {rank}), {dtype}, trained",
    }
    told = given(candidate, BESIDE).parameters_of(mine, list(wanted))
    assert_equals(told, value=wanted, what="the parameters of a new LoRALinear")


@todo("8.2", guards="factors on the device of the base's weight, whichever it is")
@BIAS
def test_the_factors_lie_where_the_base_lies(candidate: Any, draw: Draw, bias: bool) -> None:
    """lora_A and lora_B are on base's device; the meta device, without numbers, is one too."""
    weights, rank = draw_linear(draw, bias), draw.integer(2, 4)
    beside = given(candidate, BESIDE)
    mine = candidate.LoRALinear(beside.hollow(weights), rank, draw_alpha(draw, rank))
    names = [*(f"base.{name}" for name in weights), "lora_A", "lora_B"]
    assert_equals(
        beside.devices_of(mine),
        value=dict.fromkeys(names, "meta"),
        what="the devices of a LoRALinear whose base is on the meta device",
    )


def layer_of_peft(weights: State, A: Tensor, B: Tensor, alpha: float) -> Any:
    """peft.tuners.lora.Linear around the same linear layer."""
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=len(A), lora_alpha=alpha, target_modules=["0"])
    layer = inject_adapter_in_model(config, nn.Sequential(ours.linear(weights)))[0]
    tiny.set_adapter(layer, A, B)
    return layer


def with_factors(mine: Any, factors: State) -> None:
    """Set the factors of the learner's adapters, after a look at whether they are there."""
    state = tensors_of(mine)
    shapes = {name: shape_of(state.get(name)) for name in factors}
    assert_equals(
        shapes,
        value={name: shape_of(factor) for name, factor in factors.items()},
        what="the shapes of the adapters' factors",
    )
    set_state(mine, {**state, **factors})


def tensors_of(mine: Any) -> dict[str, Any]:
    """The state_dict of something of the learner's, if it has one."""
    state = state_of(mine)
    return state if isinstance(state, dict) else {}


def tensors_like(found: dict[str, Any], like: State, what: str) -> State:
    """Those under these names, looked at first: tensors of the same shapes and dtypes, finite."""
    assert_equals(
        {name: shape_of(found.get(name)) for name in like},
        value={name: shape_of(tensor) for name, tensor in like.items()},
        what=f"the shapes in {what}",
    )
    looked_at: dict[str, Any] = {}
    for name, tensor in like.items():
        one = found.get(name)
        assert_tensor(one, like=tensor, what=f"{name} in {what}")
        looked_at[name] = one
    return looked_at


def shape_of(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"


@todo("8.2", guards="layers with and without a bias, and of equal widths")
@BIAS
@pytest.mark.parametrize("shape", ["equal widths", "different widths"])
def test_the_adapter_is_added_to_the_base(
    candidate: Any, draw: Draw, shape: str, bias: bool
) -> None:
    """forward is base(x) + (alpha / r)·B·A·x, as peft's layer gives it."""
    rank = draw.choice([2, 3, 5])
    weights = draw_linear(draw, bias)
    if shape == "equal widths":
        weights = {name: w[:6, :6] if w.ndim == 2 else w[:6] for name, w in weights.items()}
    out, width = weights["weight"].shape
    (A, B), alpha = draw_factors(draw, out, width, rank), draw_alpha(draw, rank)
    x = draw.latents(3, 5, width)
    mine = fresh_layer(candidate, weights, rank, alpha)
    with_factors(mine, {"lora_A": A, "lora_B": B})
    changed = weights["weight"].double() + product(A, B, alpha / rank)
    offset = weights["bias"].double() if bias else 0.0
    assert_matches(
        mine(x),
        library=lambda: layer_of_peft(weights, A, B, alpha)(x),
        truth=lambda: x.double() @ changed.T + offset,
        what=f"the result for rank {rank}, alpha {alpha}",
    )


@todo("8.2", guards="inputs of other numbers of axes")
@pytest.mark.parametrize("axes", [(), (4,), (2, 3, 4)], ids=["one", "two", "four"])
def test_an_input_has_any_number_of_axes(candidate: Any, draw: Draw, axes: tuple[int, ...]) -> None:
    """x may be one row of numbers, or many in any arrangement."""
    rank, weights = draw.choice([2, 3]), draw_linear(draw, True)
    out, width = weights["weight"].shape
    (A, B), alpha = draw_factors(draw, out, width, rank), draw_alpha(draw, rank)
    x = draw.latents(*axes, width)
    mine = fresh_layer(candidate, weights, rank, alpha)
    with_factors(mine, {"lora_A": A, "lora_B": B})
    changed = weights["weight"].double() + product(A, B, alpha / rank)
    assert_matches(
        mine(x),
        library=lambda: layer_of_peft(weights, A, B, alpha)(x),
        truth=lambda: x.double() @ changed.T + weights["bias"].double(),
        what=f"the result for an input of shape {tuple(x.shape)}",
    )


@todo("8.2", guards="that the layer can learn, and what lies before it too")
def test_gradients_reach_the_factors_and_the_input(candidate: Any, draw: Draw) -> None:
    """lora_A, lora_B and x get the gradients that peft's layer gives them."""
    rank, weights = draw.choice([2, 3]), draw_linear(draw, True)
    out, width = weights["weight"].shape
    (A, B), alpha = draw_factors(draw, out, width, rank), draw_alpha(draw, rank)
    x, upstream = draw.latents(5, width), draw.latents(5, out)
    mine = fresh_layer(candidate, weights, rank, alpha)
    with_factors(mine, {"lora_A": A, "lora_B": B})
    found = given(candidate, BESIDE).gradients(mine, x, upstream)
    assert_equals(
        sorted(found), value=["lora_A", "lora_B", "x"], what="what gets a gradient, besides x"
    )

    @functools.cache
    def library() -> State:
        layer = layer_of_peft(weights, A, B, alpha)
        told = ours.gradients(layer, x, upstream)
        names = {"lora_A": "lora_A.default.weight", "lora_B": "lora_B.default.weight", "x": "x"}
        return {name: told[theirs] for name, theirs in names.items()}

    def truth() -> State:
        inside, above, s = x.double(), upstream.double(), alpha / rank
        changed = weights["weight"].double() + product(A, B, s)
        return {
            "lora_A": s * (above @ B.double()).T @ inside,
            "lora_B": s * above.T @ (inside @ A.double().T),
            "x": above @ changed,
        }

    for name in ("lora_A", "lora_B", "x"):
        assert_matches(
            found[name],
            library=functools.partial(lambda name: library()[name], name),
            truth=functools.partial(lambda name: truth()[name], name),
            what=f"the gradient of {name}",
        )


@todo("8.2", guards="what is frozen and what is trained, by what a step of training does")
@BIAS
def test_a_step_of_training_moves_the_factors_alone(candidate: Any, draw: Draw, bias: bool) -> None:
    """After a step along its gradients a layer gives what peft's gives after that step."""
    rank, weights, rate = draw.choice([2, 3]), draw_linear(draw, bias), draw.uniform(0.02, 0.05)
    out, width = weights["weight"].shape
    (A, B), alpha = draw_factors(draw, out, width, rank), draw_alpha(draw, rank)
    x, upstream = draw.latents(5, width), draw.latents(5, out)
    mine = fresh_layer(candidate, weights, rank, alpha)
    with_factors(mine, {"lora_A": A, "lora_B": B})
    bases = {f"base.{name}": weight for name, weight in weights.items()}
    given(candidate, BESIDE).trained(mine, [*bases, "lora_A", "lora_B"], [x], upstream, rate)
    state = tensors_of(mine)
    for name, weight in bases.items():
        assert_equals(state.get(name), value=weight, what=f"{name} after a step of training")

    def library() -> Any:
        found = ours.gradients(layer_of_peft(weights, A, B, alpha), x, upstream)
        moved = [
            factor - rate * found[f"lora_{name}.default.weight"]
            for name, factor in (("A", A), ("B", B))
        ]
        return layer_of_peft(weights, moved[0], moved[1], alpha)(x)

    def truth() -> Tensor:
        inside, above, s = x.double(), upstream.double(), alpha / rank
        moved_a = A.double() - rate * s * (above @ B.double()).T @ inside
        moved_b = B.double() - rate * s * above.T @ (inside @ A.double().T)
        result = inside @ (weights["weight"].double() + product(moved_a, moved_b, s)).T
        return result + (weights["bias"].double() if bias else 0.0)

    assert_matches(mine(x), library=library, truth=truth, what=f"the result after a step of {rate}")


@todo("8.2", guards="an alpha of 0, which is a number and not a missing one")
def test_alpha_zero_leaves_the_base(candidate: Any, draw: Draw) -> None:
    """At alpha 0 a layer gives what its base gives, whatever its factors are."""
    rank, weights = draw.choice([2, 3]), draw_linear(draw, True)
    out, width = weights["weight"].shape
    (A, B), x = draw_factors(draw, out, width, rank), draw.latents(5, width)
    mine = fresh_layer(candidate, weights, rank, 0.0)
    with_factors(mine, {"lora_A": A, "lora_B": B})
    assert_matches(
        mine(x),
        library=lambda: layer_of_peft(weights, A, B, 0.0)(x),
        truth=lambda: x.double() @ weights["weight"].double().T + weights["bias"].double(),
        what="the result at alpha 0",
    )


# 8.3

TARGETS: dict[str, tuple[str, Callable[[Draw], list[str]]]] = {
    "some projections": (
        "shipped",
        lambda draw: draw.sample(["to_q", "to_k", "to_v"], 2),
    ),
    "names with dots": (
        "shipped",
        lambda draw: [
            f"{draw.choice(['attn1', 'attn2'])}.{draw.choice(['to_q', 'to_k', 'to_v'])}",
            draw.choice(["to_out.0", "net.2"]),
        ],
    ),
    "a name inside other names": ("linear", lambda draw: ["proj"]),
    "the end of other names": ("shipped", lambda draw: ["proj", "linear_2"]),
    "one that is not there": (
        "shipped",
        lambda draw: draw.sample([draw.choice(["to_k", "to_v"]), "to_qkv"], 2),
    ),
    "one layer twice": (
        "shipped",
        lambda draw: ["to_q", f"attn1.{draw.choice(['to_q', 'to_k'])}", "to_q", "attn2.to_q"],
    ),
    "a convolution": (
        "shipped",
        lambda draw: ["proj_in", f"attn1.{draw.choice(['to_q', 'to_v'])}"],
    ),
}


def in_order(names: Any) -> Any:
    """Names may come in any order, in a list or a tuple."""
    plain = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return sorted(names) if plain else names


def names_of_the_library(kind: str, targets: Sequence[str], place: str = "") -> list[str]:
    """The linear layers that UNet2DConditionModel.add_adapter puts an adapter on."""
    layers = tiny.names_adapted(kind, tuple(targets))
    return sorted(name.removeprefix(place) for name in layers if name.startswith(place))


def carrying(mine: Any) -> list[str]:
    """The modules of the learner's model that have an adapter."""
    state = tensors_of(mine)
    factors, bases = (
        {key.removesuffix(end) for key in state if key.endswith(end)}
        for end in (".lora_A", ".base.weight")
    )
    return sorted(factors.intersection(bases))


@todo("8.3", again=False)  # the next check asks for another set of targets each time
@pytest.mark.parametrize("targets", TARGETS)
def test_the_layers_that_match_are_replaced(candidate: Any, draw: Draw, targets: str) -> None:
    """The linear layers that get an adapter are those that a UNet's add_adapter chooses."""
    kind, draw_names = TARGETS[targets]
    named, rank = draw_names(draw), draw.integer(1, 3)
    model = given(candidate, BESIDE).skeleton(tiny.leaves_of(tiny.hollow(kind)))
    answer = candidate.inject(model, named, rank, draw_alpha(draw, rank))
    wanted = functools.cache(lambda: names_of_the_library(kind, named))
    assert_equals(in_order(answer), library=wanted, what=f"the names returned for {named}")
    assert_equals(carrying(model), library=wanted, what=f"the modules replaced for {named}")


@todo("8.3")
def test_a_name_without_a_parent_matches_too(candidate: Any, draw: Draw) -> None:
    """A layer at the top of a model has no dot in its name."""
    named = [draw.choice(["proj_in", "proj_out"]), draw.choice(["to_k", "to_q"])]
    model = given(candidate, BESIDE).skeleton(tiny.leaves_of(tiny.block_of("linear")))
    answer = candidate.inject(model, named, 1, draw_alpha(draw, 1))  # 1 is the least rank
    place = tiny.PLACES["linear"] + "."
    wanted = functools.cache(lambda: names_of_the_library("linear", named, place))
    assert_equals(in_order(answer), library=wanted, what=f"the names returned for {named}")
    assert_equals(carrying(model), library=wanted, what=f"the modules replaced for {named}")


@todo("8.3", guards="classes derived from nn.Linear")
def test_a_linear_layer_of_another_class_is_one(candidate: Any, draw: Draw) -> None:
    """A module of a class derived from nn.Linear is an nn.Linear: peft adapts it too."""
    derived = {"mid.to_q": "Projection", "up.to_v": "Projection", "down.to_k": "Projection"}
    leaves = derived | {"up.to_q": "Linear", "down.to_v": "Linear", "norm": "other"}
    named = draw.sample(["to_q", "to_v", "to_k"], 2)
    model = given(candidate, BESIDE).skeleton(leaves)
    answer = candidate.inject(model, named, 2, draw_alpha(draw, 2))

    @functools.cache
    def wanted() -> list[str]:
        from peft import LoraConfig, inject_adapter_in_model

        config = LoraConfig(r=2, lora_alpha=3.0, target_modules=named)
        return sorted(tiny.adapted_layers(inject_adapter_in_model(config, ours.skeleton(leaves))))

    assert_equals(in_order(answer), library=wanted, what=f"the names returned for {named}")
    assert_equals(carrying(model), library=wanted, what=f"the modules replaced for {named}")


def draw_weights(draw: Draw, dtype: torch.dtype = torch.float32) -> State:
    """New weights for the small UNet's first attention block."""
    state: State = tiny.block_of("linear").state_dict()
    return {
        name: (
            draw.latents(*w.shape) / math.sqrt(w.shape[1])
            if w.ndim > 1
            else draw.latents(*w.shape) / 4 + (1.0 if "norm" in name and "weight" in name else 0)
        ).to(dtype)
        for name, w in state.items()
    }


def trained_weights(draw: Draw) -> State:
    """The weights of an attention block of the shipped UNet."""
    return {name: w.to(draw.device) for name, w in tiny.block_of("shipped").state_dict().items()}


HEADS = {"linear": 4, "shipped": 2}
GROUPS = 8
CHOSEN = ("to_q", "to_v", "attn2.to_k", "to_out.0", "net.2")


class Case:
    """A transformer block in the candidate, and the factors for adapters on some of its layers."""

    def __init__(self, draw: Draw, kind: str, state: State) -> None:
        self.kind, self.state = kind, state
        self.targets = draw.sample(CHOSEN, 3)
        self.rank = draw.choice([2, 3, 5])
        self.alpha = draw_alpha(draw, self.rank)
        self.names = [
            name.removesuffix(".weight")
            for name in state
            if any(name.endswith(f".{target}.weight") for target in self.targets)
        ]
        dtype = state["proj_in.weight"].dtype
        self.factors: State = {}
        for name in self.names:
            out, width = state[f"{name}.weight"].shape
            A, B = draw_factors(draw, out, width, self.rank)
            self.factors[f"{name}.lora_A"] = A.to(dtype)
            self.factors[f"{name}.lora_B"] = B.to(dtype)
        width = state["norm.weight"].shape[0]
        context = state["transformer_blocks.0.attn2.to_k.weight"].shape[1]
        self.hidden = draw.latents(2, width, 4, 5, dtype=dtype)
        self.context = draw.latents(2, 7, context, dtype=dtype)

    def model(self, candidate: Any) -> Any:
        """The block, in the candidate, as it was."""
        return given(candidate, BESIDE).transformer(self.state, HEADS[self.kind], GROUPS)

    def injected(self, candidate: Any) -> Any:
        """The block after the learner's inject, with the adapters' factors set."""
        model = self.model(candidate)
        candidate.inject(model, self.targets, self.rank, self.alpha)
        with_factors(model, self.factors)
        return model

    def bases(self) -> State:
        """The block's own weights, by their names once the adapters are in."""
        found: State = {}
        for name, weight in self.state.items():
            layer, _, last = name.rpartition(".")
            found[f"{layer}.base.{last}" if layer in self.names else name] = weight
        return found

    def deltas(self) -> dict[str, Tensor]:
        """ΔW of each layer, in float64."""
        return {
            name: product(
                self.factors[f"{name}.lora_A"],
                self.factors[f"{name}.lora_B"],
                self.alpha / self.rank,
            )
            for name in self.names
        }

    def true_result(self, scale: float = 1.0) -> Tensor:
        """What the block computes with its adapters at this scale, in float64."""
        state = {name: w.double() for name, w in self.state.items()}
        for name, delta in self.deltas().items():
            state[f"{name}.weight"] += scale * delta
        model = ours.transformer(state, HEADS[self.kind], GROUPS)
        result: Tensor = model(self.hidden.double(), self.context.double())
        return result

    def library(self) -> Any:
        """The UNet with these weights after add_adapter, with the same factors."""
        place = tiny.PLACES[self.kind]
        targets = [f"{place}.{name}" for name in self.names]
        unet = tiny.adapted(tiny.UNETS[self.kind](), targets, self.rank, self.alpha, place)
        unet.to(self.hidden.device)
        for name, layer in self.layers(unet).items():
            tiny.set_adapter(layer, self.factors[f"{name}.lora_A"], self.factors[f"{name}.lora_B"])
        for name, weight in self.state.items():
            module, _, last = name.rpartition(".")
            part = unet.get_submodule(f"{place}.{module}")
            getattr(getattr(part, "base_layer", part), last).data.copy_(weight)
        return unet

    def layers(self, unet: Any) -> dict[str, Any]:
        """peft's layers in the block, by name."""
        return tiny.adapted_layers(unet.get_submodule(tiny.PLACES[self.kind]))

    def result_of(self, unet: Any) -> Any:
        """What the UNet's block computes."""
        block = unet.get_submodule(tiny.PLACES[self.kind])
        return block(self.hidden, encoder_hidden_states=self.context).sample


@todo("8.3")
@pytest.mark.parametrize("kind", ["linear", "shipped"])
def test_the_model_computes_with_its_adapters(candidate: Any, draw: Draw, kind: str) -> None:
    """An attention block with adapters gives what the UNet's gives after add_adapter."""
    case = Case(draw, kind, trained_weights(draw) if kind == "shipped" else draw_weights(draw))
    mine = case.injected(candidate)
    assert_matches(
        mine(case.hidden, case.context),
        library=lambda: case.result_of(case.library()),
        truth=case.true_result,
        what=f"the block's result with adapters of rank {case.rank}, alpha {case.alpha}",
    )


def trained_names(told: Any) -> Any:
    """The parameters that are trained."""
    if not isinstance(told, dict):
        return told
    return sorted(name for name, line in told.items() if str(line).endswith("trained"))


def trained_by_the_library(case: Case) -> list[str]:
    """The same after add_adapter, in this lab's names."""
    block = case.library().get_submodule(tiny.PLACES[case.kind])
    return sorted(
        name.removesuffix(".default.weight")
        for name, p in block.named_parameters()
        if p.requires_grad
    )


@todo("8.3", guards="norms, convolutions and layers without an adapter")
@pytest.mark.parametrize("kind", ["linear", "shipped"])
def test_only_the_adapters_are_trained(candidate: Any, draw: Draw, kind: str) -> None:
    """Every parameter is frozen but the factors, as after add_adapter."""
    case = Case(draw, kind, trained_weights(draw) if kind == "shipped" else draw_weights(draw))
    model = case.model(candidate)
    candidate.inject(model, case.targets, case.rank, case.alpha)
    assert_equals(
        trained_names(given(candidate, BESIDE).parameters_of(model)),
        library=lambda: trained_by_the_library(case),
        what="the parameters that are trained after inject",
    )


@todo("8.3", guards="what is frozen and what is trained, by what a step of training does")
def test_a_step_of_training_moves_the_adapters_alone(candidate: Any, draw: Draw) -> None:
    """A step along the gradients changes every factor and nothing else in the model."""
    case = Case(draw, "linear", draw_weights(draw))
    upstream, mine = draw.latents(*case.hidden.shape), case.injected(candidate)
    bases, before = case.bases(), case.bases() | case.factors
    inputs, rate = [case.hidden, case.context], draw.uniform(0.02, 0.05)
    given(candidate, BESIDE).trained(mine, [*before], inputs, upstream, rate)
    after = tensors_like(tensors_of(mine), before, "the model after a step of training")
    assert_equals(
        in_a_row([after[name] for name in bases]),
        value=in_a_row([*bases.values()]),
        what="all weights of the model after a step of training",
    )
    moved = [name for name, factor in case.factors.items() if not torch.equal(after[name], factor)]
    assert_equals(moved, value=[*case.factors], what="the factors that a step of training moves")


OTHERS = {
    "lora_gate": "Linear",
    "up.lora_B.mix": "Linear",
    "lora_conv": "Conv2d",
    "words": "Embedding",
    "norm": "other",
}


@todo("8.3", guards="modules of other kinds, and names like an adapter's")
def test_what_is_frozen_goes_by_no_name(candidate: Any, draw: Draw) -> None:
    """A module of any kind is frozen, also one whose name sounds like an adapter's."""
    model = given(candidate, BESIDE).skeleton({"mid.to_q": "Linear", **OTHERS})
    rank = draw.integer(1, 3)
    candidate.inject(model, ["to_q"], rank, draw_alpha(draw, rank))
    assert_equals(
        trained_names(
            given(candidate, BESIDE).parameters_of(
                model, ["mid.to_q.base.weight", *(f"{name}.weight" for name in OTHERS)]
            )
        ),
        value=["mid.to_q.lora_A", "mid.to_q.lora_B"],
        what=f"the parameters that are trained beside {', '.join(OTHERS)}",
    )


@todo("8.3", guards="the model itself: its weights and, before any training, its results")
def test_injection_alone_changes_nothing(candidate: Any, draw: Draw) -> None:
    """Before any training the model gives what it gave before.

    A layer does so to the bit, as 8.2 has it. But a right layer may lay its numbers out in another
    order, and what comes after it then adds them up in another.
    """
    case = Case(draw, "linear", draw_weights(draw))
    model = case.model(candidate)
    candidate.inject(model, case.targets, case.rank, case.alpha)
    plain = functools.partial(ours.transformer, case.state, HEADS[case.kind], GROUPS)
    assert_matches_formula(
        model(case.hidden, case.context),
        computed=lambda: plain()(case.hidden, case.context),
        truth=lambda: case.true_result(scale=0.0),
        what="the result after inject alone",
    )


NOTHING: dict[str, list[str]] = {
    "a part of a name": ["to_", "proj_"],
    "the end of a name": ["emb_proj", "o_q"],
    "a convolution": ["proj_in", "conv_shortcut"],
    "a module of modules": ["attn1", "ff"],
    "a norm": ["norm1", "conv_norm_out"],
    "an embedding": ["words", "places"],
}


@todo("8.3")
@pytest.mark.parametrize("named", NOTHING)
def test_no_match_is_refused(candidate: Any, draw: Draw, named: str) -> None:
    """Targets that match no linear layer are a ValueError."""
    leaves = {
        name: kind
        for name, kind in tiny.leaves_of(tiny.hollow("shipped")).items()
        if name.startswith(("time_embedding", "down_blocks.1", "conv_norm_out"))
    }
    embeddings = {"words": "Embedding", "text.places": "Embedding"}
    model = given(candidate, BESIDE).skeleton(leaves | embeddings)
    targets = draw.sample(NOTHING[named], 2)
    assert_raises(
        lambda: candidate.inject(model, targets, draw.integer(1, 4), draw.uniform(2, 9)),
        "ValueError",
        what=f"no linear layer called {targets}",
    )


@todo("8.3")
@pytest.mark.parametrize("rank", [0, -2])
def test_a_rank_below_one_is_refused(candidate: Any, draw: Draw, rank: int) -> None:
    """A rank of 0 or less is a ValueError."""
    model = given(candidate, BESIDE).skeleton(tiny.leaves_of(tiny.block_of("linear")))
    assert_raises(
        lambda: candidate.inject(model, ["to_q"], rank, draw.uniform(2, 9)),
        "ValueError",
        what=f"a rank of {rank}",
    )


# 8.4


def draw_scales(draw: Draw) -> tuple[float, float]:
    """Two scales, far from each other, from 0, from 1 and from each other's products."""
    pair = (draw.uniform(0.3, 0.4), draw.choice([-1, 1]) * draw.uniform(0.65, 0.8))
    return pair if draw.choice([True, False]) else (pair[1], pair[0])


def draw_case(draw: Draw, dtype: str = "float32") -> Case:
    """An attention block with adapters, in this dtype."""
    return Case(draw, "linear", draw_weights(draw, DTYPES[dtype]))


def base_weights(mine: Any, case: Case) -> Tensor:
    """The base weights of the adapted layers, in a row."""
    like = {f"{name}.base.weight": case.state[f"{name}.weight"] for name in case.names}
    return in_a_row([*tensors_like(tensors_of(mine), like, "the adapted layers").values()])


def in_a_row(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def true_weights(case: Case, scale: float) -> Tensor:
    """W + scale·(alpha / r)·B·A of each layer, in float64."""
    deltas = case.deltas()
    weights = [case.state[f"{name}.weight"].double() + scale * deltas[name] for name in case.names]
    return in_a_row(weights)


def computed_weights(case: Case, scale: float) -> Tensor:
    """The same in the graded dtype."""
    return in_a_row(
        [
            case.state[f"{name}.weight"]
            + scale
            * (case.alpha / case.rank)
            * (case.factors[f"{name}.lora_B"] @ case.factors[f"{name}.lora_A"])
            for name in case.names
        ]
    )


def assert_fused(mine: Any, case: Case, scale: float, what: str) -> None:
    """The base weights are W + scale·ΔW: the formula is right, for calls add up in diffusers."""
    assert_matches_formula(
        base_weights(mine, case),
        computed=lambda: computed_weights(case, scale),
        truth=lambda: true_weights(case, scale),
        what=what,
    )


def assert_restored(mine: Any, case: Case, what: str) -> None:
    """The base weights are, to the bit, those from before any fusing."""
    assert_equals(
        base_weights(mine, case),
        value=in_a_row([case.state[f"{name}.weight"] for name in case.names]),
        what=what,
    )


def fused_by_the_library(case: Case, scale: float) -> Any:
    """The UNet after its first fuse_lora."""
    unet = case.library()
    unet.fuse_lora(lora_scale=scale)
    return unet


@todo("8.4", guards="the weights of a first fuse, against the live library")
@pytest.mark.parametrize("sign", [1, -1], ids=["added", "subtracted"])
def test_the_adapters_go_into_the_weights(candidate: Any, draw: Draw, sign: int) -> None:
    """After fuse each base.weight is what the UNet's is after fuse_lora."""
    case, scale = draw_case(draw), sign * abs(draw_scales(draw)[0])
    mine = case.injected(candidate)
    candidate.fuse(mine, scale)

    def library() -> Tensor:
        layers = case.layers(fused_by_the_library(case, scale))
        return in_a_row([layers[name].base_layer.weight for name in case.names])

    assert_matches(
        base_weights(mine, case),
        library=library,
        truth=lambda: true_weights(case, scale),
        what=f"the weights fused at scale {scale}",
    )


@todo("8.4", guards="fusing in half precision, in the weights' own dtype")
@pytest.mark.parametrize("dtype", HALF)
def test_weights_in_half_precision_are_fused(candidate: Any, draw: Draw, dtype: str) -> None:
    """fuse keeps the dtype of the weights."""
    case, (scale, _) = draw_case(draw, dtype), draw_scales(draw)
    mine = case.injected(candidate)
    candidate.fuse(mine, scale)
    assert_fused(mine, case, scale, f"the weights fused at scale {scale} in {dtype}")


@todo("8.4", guards="the result of a fused model, against the live library")
def test_a_fused_adapter_is_not_added_again(candidate: Any, draw: Draw) -> None:
    """The forward pass of a fused model has the adapter once, at the scale of fuse."""
    case, (scale, _) = draw_case(draw), draw_scales(draw)
    mine = case.injected(candidate)
    candidate.fuse(mine, scale)
    assert_matches(
        mine(case.hidden, case.context),
        library=lambda: case.result_of(fused_by_the_library(case, scale)),
        truth=lambda: case.true_result(scale),
        what=f"the block's result, fused at scale {scale}",
    )


@todo("8.4", guards="a second fuse at another scale")
def test_a_second_fuse_replaces_the_first(candidate: Any, draw: Draw) -> None:
    """fuse computes from the weight as it was before any fusing."""
    case, (first, second) = draw_case(draw), draw_scales(draw)
    mine = case.injected(candidate)
    candidate.fuse(mine, first)
    candidate.fuse(mine, second)
    assert_fused(mine, case, second, f"the weights fused at {first}, then at {second}")


@todo("8.4", guards="every bit, in each dtype and after two fusings")
@pytest.mark.parametrize("times", ["once", "twice"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_unfusing_restores_every_bit(candidate: Any, draw: Draw, dtype: str, times: str) -> None:
    """After unfuse the weights are those from before fuse, in half precision too."""
    case, scales = draw_case(draw, dtype), draw_scales(draw)
    mine = case.injected(candidate)
    keys = sorted(tensors_of(mine))
    assert_form(keys, ["str"], what="the keys of the state dict")
    for scale in scales[: 1 if times == "once" else 2]:
        candidate.fuse(mine, scale)
    candidate.unfuse(mine)
    what = f"fused {times} and unfused, {dtype}"
    assert_restored(mine, case, f"the weights, {what}")
    assert_equals(sorted(tensors_of(mine)), value=keys, what=f"the keys of the state dict, {what}")


def assert_rest(mine: Any, case: Case, what: str) -> None:
    """All numbers are those from before, but for the base weights of the adapted layers."""
    fused = {f"{name}.base.weight" for name in case.names}
    rest = {name: w for name, w in (case.bases() | case.factors).items() if name not in fused}
    assert_equals(
        in_a_row([*tensors_like(tensors_of(mine), rest, f"the model {what}").values()]),
        value=in_a_row([*rest.values()]),
        what=f"the factors and all that is not fused, {what}",
    )


@todo("8.4", guards="the factors while fused, what is trained, and calls with gradients on")
def test_fusing_leaves_the_rest_alone(candidate: Any, draw: Draw) -> None:
    """fuse changes no other number, nor which parameters there are, nor which are trained."""
    case, (scale, _) = draw_case(draw), draw_scales(draw)
    mine, beside = case.injected(candidate), given(candidate, BESIDE)
    before = beside.parameters_of(mine)
    assert_form(before, dict.fromkeys(form_of(before), "str"), what="the parameters before fuse")
    calls: dict[str, Callable[[], Any]] = {
        "fuse": lambda: candidate.fuse(mine, scale),
        "unfuse": lambda: candidate.unfuse(mine),
    }
    for name, call in calls.items():
        with with_gradients(candidate):
            call()
        assert_equals(beside.parameters_of(mine), value=before, what=f"the parameters after {name}")
        assert_rest(mine, case, f"after {name}")


@todo("8.4", guards="factors that have changed since, and every bit at scale 0")
@pytest.mark.parametrize("dtype", DTYPES)
def test_fuse_reads_the_factors_anew(candidate: Any, draw: Draw, dtype: str) -> None:
    """Factors that were trained on between two fuses count; at scale 0 the weight is W."""
    case, (scale, other) = draw_case(draw, dtype), draw_scales(draw)
    mine = case.injected(candidate)
    candidate.fuse(mine, other)
    case.factors = {
        name: (draw.latents(*f.shape) / 2).to(f.dtype) for name, f in case.factors.items()
    }
    with_factors(mine, case.factors)
    candidate.fuse(mine, scale)
    assert_fused(mine, case, scale, f"the weights fused after the factors changed, {dtype}")
    candidate.fuse(mine, 0.0)
    assert_restored(mine, case, f"the weights fused at scale 0 in the end, {dtype}")


@todo("8.4", guards="the result after unfuse, against the live library")
def test_unfusing_forgets_the_scale(candidate: Any, draw: Draw) -> None:
    """After unfuse the adapter stands beside the weight again, at its own alpha / r."""
    case, (scale, _) = draw_case(draw), draw_scales(draw)
    mine = case.injected(candidate)
    candidate.fuse(mine, scale)
    candidate.unfuse(mine)
    factors = tensors_like(tensors_of(mine), case.factors, "the model after unfuse")
    assert_equals(
        in_a_row([*factors.values()]),
        value=in_a_row([*case.factors.values()]),
        what="the adapters' factors after unfuse",
    )
    assert_matches(
        mine(case.hidden, case.context),
        library=lambda: case.result_of(case.library()),
        truth=case.true_result,
        what=f"the block's result, fused at {scale} and unfused",
    )


@todo("8.4", guards="a row of calls that diffusers gets wrong, and weights loaded in between")
@pytest.mark.parametrize("loaded", ["the same weights", "new weights"])
def test_fusing_once_more_gives_the_same(candidate: Any, draw: Draw, loaded: str) -> None:
    """fuse, unfuse, fuse at one scale is fuse, of the weights that stand there at the time."""
    case, (scale, _) = draw_case(draw), draw_scales(draw)
    mine = case.injected(candidate)
    candidate.fuse(mine, scale)
    candidate.unfuse(mine)
    if loaded == "new weights":
        case.state = draw_weights(draw)
        bases = {f"{name}.base.weight": case.state[f"{name}.weight"] for name in case.names}
        set_state(mine, {**tensors_of(mine), **bases})
    candidate.fuse(mine, scale)
    assert_fused(mine, case, scale, f"{loaded} fused, unfused and fused again at {scale}")
    candidate.unfuse(mine)
    assert_restored(mine, case, f"{loaded} after all that and unfuse")


@todo("8.4", guards="unfuse called too early, and once too often")
def test_unfusing_what_is_not_fused(candidate: Any, draw: Draw) -> None:
    """unfuse leaves a model alone that is not fused, also when it was unfused before."""
    case, (scale, _) = draw_case(draw), draw_scales(draw)
    mine = case.injected(candidate)
    candidate.unfuse(mine)
    candidate.fuse(mine, scale)
    candidate.unfuse(mine)
    candidate.unfuse(mine)
    assert_restored(mine, case, "the weights, unfused too often")


def assert_stands(mine: Any, weights: State, factors: State, alpha: float, x: Tensor) -> None:
    """A layer gives what peft's gives with these weights, these factors and this alpha."""
    A, B = factors["lora_A"], factors["lora_B"]
    changed = weights["weight"].double() + product(A, B, alpha / len(A))
    assert_matches(
        mine(x),
        library=lambda: layer_of_peft(weights, A, B, alpha)(x),
        truth=lambda: x.double() @ changed.T + weights["bias"].double(),
        what="the result of one of two layers, each a model of its own",
    )


@todo("8.4", guards="a model that is one layer, and another model beside it")
def test_only_the_model_given_is_fused(candidate: Any, draw: Draw) -> None:
    """A layer alone is a model too, and the layers of other models are left as they are."""
    weights, rank, (scale, _) = draw_linear(draw, True), draw.choice([2, 3]), draw_scales(draw)
    out, width = weights["weight"].shape
    x, alpha = draw.latents(5, width), draw_alpha(draw, rank)
    layers = [fresh_layer(candidate, weights, rank, alpha) for _ in range(2)]
    factors = [
        dict(zip(("lora_A", "lora_B"), draw_factors(draw, out, width, rank), strict=True))
        for _ in layers
    ]
    for layer, own in zip(layers, factors, strict=True):
        with_factors(layer, own)
    calls: list[tuple[Callable[[], Any], float]] = [
        (lambda: candidate.fuse(layers[0], scale), scale),
        (lambda: candidate.unfuse(layers[1]), scale),
        (lambda: candidate.unfuse(layers[0]), 1.0),
    ]
    for call, strength in calls:
        call()
        assert_stands(layers[0], weights, factors[0], strength * alpha, x)
        assert_stands(layers[1], weights, factors[1], alpha, x)
    for layer in layers:
        assert_equals(
            tensors_of(layer).get("base.weight"),
            value=weights["weight"],
            what="the weight of a layer that is not fused any more",
        )


# 8.5

LAYER = "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k"


def draw_adapters(draw: Draw, ranks: Sequence[int], width: int) -> list[dict[str, Any]]:
    """Adapters for one linear layer, width → 16."""
    found = []
    for rank in ranks:
        A, B = draw_factors(draw, 16, width, rank)
        found.append({"A": A, "B": B, "alpha": draw_alpha(draw, rank)})
    return found


def summed_by_the_library(
    adapters: Sequence[dict[str, Any]], weights: Sequence[float], scale: float
) -> Any:
    """The change of the layer's weight while the UNet runs: set_adapters, and scale for the run."""
    from peft import LoraConfig

    width, device = adapters[0]["A"].shape[1], adapters[0]["A"].device
    unet = tiny.copied(tiny.small(width)).to(device)
    names = [f"adapter_{i}" for i in range(len(adapters))]
    for name, adapter in zip(names, adapters, strict=True):
        rank = len(adapter["A"])
        unet.add_adapter(
            LoraConfig(r=rank, lora_alpha=adapter["alpha"], target_modules=[LAYER]), name
        )
        tiny.set_adapter(unet.get_submodule(LAYER), adapter["A"], adapter["B"], name)
    unet.set_adapters(names, list(weights))
    seen: list[Tensor] = []

    def watch(layer: Any, *_: Any) -> None:
        seen.append(sum(layer.get_delta_weight(name) for name in layer.active_adapters))

    unet.get_submodule(LAYER).register_forward_hook(watch)
    latents, context = torch.zeros(1, 4, 8, 8), torch.zeros(1, 3, width)
    unet(
        latents.to(device),
        torch.tensor(1, device=device),
        context.to(device),
        cross_attention_kwargs={"scale": scale},
    )
    return seen[0]


def draw_ranks(draw: Draw, ranks: str) -> list[int]:
    return [draw.choice([3, 4, 6])] * 3 if ranks == "equal ranks" else draw.sample([2, 3, 5, 6], 3)


def draw_three_weights(draw: Draw) -> list[float]:
    """Three weights, none near 0 or 1, one of them negative."""
    sizes = [draw.uniform(0.3, 0.45), draw.uniform(0.55, 0.75), -draw.uniform(1.3, 1.7)]
    return [sizes[i] for i in draw.sample([0, 1, 2], 3)]


@todo("8.5")
@pytest.mark.parametrize("ranks", ["equal ranks", "different ranks"])
@pytest.mark.parametrize("signs", ["all positive", "one negative"])
def test_adapters_add_up(candidate: Any, draw: Draw, signs: str, ranks: str) -> None:
    """ΔW is the change that a UNet has under set_adapters and cross_attention_kwargs' scale."""
    width = draw.choice([20, 24, 28])
    adapters = draw_adapters(draw, draw_ranks(draw, ranks), width)
    weights, scale = draw_three_weights(draw), draw.uniform(0.4, 0.7)
    if signs == "all positive":
        weights = [abs(weight) for weight in weights]
    assert_matches(
        candidate.combine_adapters(adapters, weights, scale),
        library=lambda: summed_by_the_library(adapters, weights, scale),
        truth=lambda: (
            scale
            * sum(
                (
                    product(a["A"], a["B"], w * a["alpha"] / len(a["A"]))
                    for w, a in zip(weights, adapters, strict=True)
                ),
                start=torch.zeros((), dtype=torch.float64, device=draw.device),
            )
        ),
        what=f"ΔW of three adapters with weights {weights} at scale {scale}",
    )


@todo("8.5", guards="other numbers of adapters, a weight of 0, and scales beyond 1 or below 0")
@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_adapters_adds_up(candidate: Any, draw: Draw, count: int) -> None:
    """A weight of 0 leaves an adapter out; a negative scale turns all of them round."""
    adapters = draw_adapters(draw, [draw.choice([1, 2, 3]) for _ in range(count)], 20)
    weights = [draw.uniform(0.3, 0.9) for _ in adapters]
    if count > 1:
        weights[draw.integer(0, count - 1)] = 0.0
    if count > 2:  # an alpha of 0 is none that is missing
        adapters[next(i for i, weight in enumerate(weights) if weight)]["alpha"] = 0.0
    scale = draw.choice([-1, 1]) * draw.uniform(1.4, 1.8)
    assert_matches(
        candidate.combine_adapters(adapters, weights, scale),
        library=lambda: summed_by_the_library(adapters, weights, scale),
        truth=lambda: sum(
            (
                product(a["A"], a["B"], scale * w * a["alpha"] / len(a["A"]))
                for w, a in zip(weights, adapters, strict=True)
            ),
            start=torch.zeros((), dtype=torch.float64, device=draw.device),
        ),
        what=f"ΔW of {count} adapters with weights {weights} at scale {scale}",
    )


@todo("8.5")
@pytest.mark.parametrize("count", [1, 0, 2, 4])
def test_a_weight_for_each_adapter(candidate: Any, draw: Draw, count: int) -> None:
    """Another number of weights than of adapters is a ValueError, as in set_adapters."""
    adapters = draw_adapters(draw, [3, 3, 3], 20)
    weights = [draw.uniform(0.3, 0.9) for _ in range(count)]
    assert_raises(
        lambda: candidate.combine_adapters(adapters, weights, draw.uniform(0.4, 0.7)),
        "ValueError",
        what=f"{count} weights for 3 adapters",
    )


# 8.6

SPELLINGS = {  # what only one of them has is told apart best with peft's, which no mistake lacks
    "peft": (".lora_A.weight", ".lora_B.weight"),
    "diffusers": (".lora.down.weight", ".lora.up.weight"),
    "Kohya": (".lora_down.weight", ".lora_up.weight"),
}
MODULES = (
    "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q",
    "unet.down_blocks.1.resnets.0.time_emb_proj",
    "unet.up_blocks.1.attentions.1.transformer_blocks.0.attn2.to_k",
    "unet.up_blocks.0.attentions.0.transformer_blocks.0.ff.net.0.proj",
    "unet.mid_block.attentions.0.transformer_blocks.0.attn1.to_out.0",
    "text_encoder.text_model.encoder.layers.1.self_attn.q_proj",
    "text_encoder.text_model.encoder.layers.0.mlp.fc1",
)


def prefix_in(spelling: str, module: str) -> str:
    """A module as files of this spelling call it. Kohya's have no dots left."""
    if spelling != "Kohya":
        return module
    return "lora_" + module.replace("text_encoder", "te").replace(".", "_")


def draw_file(
    draw: Draw, spelling: str, with_alpha: int
) -> tuple[State, dict[str, dict[str, Any]]]:
    """A file of five adapters, so many with an alpha, keys in any order; and what is in it."""
    file: State = {}
    held: dict[str, dict[str, Any]] = {}
    ranks = draw.sample(range(2, 9), 5)
    bearers = draw.sample(range(5), with_alpha)
    for i, module in enumerate(draw.sample(MODULES, 5)):
        prefix, rank = prefix_in(spelling, module), ranks[i]
        kernel = (3, 3) if i == 2 else ()
        A = draw.latents(rank, draw.integer(4, 7), *kernel)
        B = draw.latents(draw.integer(4, 7), rank, *([1] * len(kernel)))
        down, up = SPELLINGS[spelling]
        file |= {prefix + down: A, prefix + up: B}
        alpha = float(rank)
        if i in bearers:
            alpha = draw_alpha(draw, rank)
            file[f"{prefix}.alpha"] = torch.tensor(alpha)
        held[prefix] = {"A": A, "B": B, "alpha": alpha}
    return {key: file[key] for key in draw.sample(list(file), len(file))}, held


def field_of(answer: Any, name: str, prefixes: Iterable[str]) -> dict[str, Any]:
    """One field of these adapters of an answer, by prefix."""
    adapters = {prefix: answer.get(prefix) for prefix in sorted(prefixes)}
    return {
        prefix: adapter.get(name) if isinstance(adapter, dict) else adapter
        for prefix, adapter in adapters.items()
    }


def number_of(alpha: Any, what: str) -> float:
    """An alpha that may come as a number or as a tensor of one, in float32, as files hold it."""
    if isinstance(alpha, Tensor) and alpha.numel() == 1 and not alpha.is_complex():
        assert_tensor(alpha, what=what)
        return torch.tensor(float(alpha)).item()
    assert_number(alpha, what=what)
    return torch.tensor(float(alpha)).item()


Parsed = dict[str, dict[str, Any]]


def numbers_in(parsed: Parsed) -> dict[str, float]:
    """The alphas of our own or the library's adapters."""
    return {prefix: torch.tensor(float(a["alpha"])).item() for prefix, a in parsed.items()}


def row_of(name: str, parsed: Parsed) -> Tensor:
    return in_a_row([parsed[prefix][name] for prefix in sorted(parsed)])


def assert_parsed(
    answer: Any, held: Parsed, what: str, library: Callable[[], Parsed] | None = None
) -> None:
    """Prefixes, alphas, and factors of an answer, one after the other: `held`, or the library's."""

    def compare(mine: Any, of: str, part: Callable[[Parsed], Any]) -> None:
        if library is None:
            assert_equals(mine, value=part(held), what=of)
        else:
            assert_equals(mine, library=lambda: part(library()), what=of)

    compare(
        sorted(answer) if isinstance(answer, dict) else answer, f"the prefixes of {what}", sorted
    )
    alphas = {
        prefix: number_of(alpha, f"the alpha of {prefix}")
        for prefix, alpha in field_of(answer, "alpha", held).items()
    }
    compare(alphas, f"the alphas of {what}", numbers_in)
    for name in ("A", "B"):
        like = {prefix: held[prefix][name] for prefix in sorted(held)}
        factors = tensors_like(field_of(answer, name, held), like, f"the {name} of {what}")
        compare(
            in_a_row([*factors.values()]),
            f"the numbers of {name} in {what}, prefix after prefix",
            functools.partial(row_of, name),
        )


@todo("8.6", guards="each spelling alone, before files that lack or mix something")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_file_of_one_spelling(candidate: Any, draw: Draw, spelling: str) -> None:
    """Every adapter of a file is found, with its factors and its own alpha."""
    file, held = draw_file(draw, spelling, 5)
    assert_parsed(candidate.parse_state_dict(file), held, f"a file spelled as {spelling}'s")


@todo("8.6", guards="alphas that are missing for some modules, or for all")
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("with_alpha", [0, 2])
def test_an_alpha_that_is_not_there(
    candidate: Any, draw: Draw, with_alpha: int, spelling: str
) -> None:
    """An adapter without an alpha has its own rank as alpha."""
    file, held = draw_file(draw, spelling, with_alpha)
    assert_parsed(
        candidate.parse_state_dict(file),
        held,
        f"a file spelled as {spelling}'s, {with_alpha} of 5 adapters with an alpha",
    )


ODD = (
    *("Unet.Block", "lora_A.to_q", "a b.lora.to_k", "x.lora_down.y", "up.lora.up.z"),
    *("net.alpha_mix.to_q", "x.alpha", "p.lora_A.weight.q", "p.lora.up.weight.q"),
    *("p.lora_down.weight.q", "y.alpha.alpha.z"),
)


@todo("8.6", guards="prefixes of any text, an alpha of 0, and factors in half precision")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_prefix_and_factors_are_kept(candidate: Any, draw: Draw, spelling: str) -> None:
    """The prefix is kept as it is written, and A and B in the dtype they have."""
    down, up = SPELLINGS[spelling]
    file: State = {}
    held: dict[str, dict[str, Any]] = {}
    for prefix in draw.sample(ODD, len(ODD)):
        rank = draw.integer(9, 12)
        A, B = (draw.latents(rank, 4).half(), draw.latents(5, rank).half())
        alpha = 0.0 if prefix == ODD[0] else -draw_alpha(draw, rank)
        file |= {prefix + down: A, prefix + up: B, f"{prefix}.alpha": torch.tensor(alpha)}
        held[prefix] = {"A": A, "B": B, "alpha": alpha}
    what = f"a file of odd names spelled as {spelling}'s"
    assert_parsed(candidate.parse_state_dict(file), held, what)


def draw_stripes(draw: Draw) -> dict[str, dict[str, Tensor]]:
    """Some adapters of the shipped file, cut to ranks of their own and made stronger or weaker."""
    shipped = tiny.stripes()
    found = {}
    for module in draw.sample(sorted(shipped), 10):
        rank, gain = draw.integer(2, 8), draw.uniform(0.5, 1.5)
        A, B = (shipped[module][name].to(draw.device) for name in ("A", "B"))
        found[module] = {"A": (A[:rank] * gain).contiguous(), "B": B[:, :rank].contiguous()}
    return found


def file_of(adapters: dict[str, dict[str, Tensor]], spellings: Sequence[str]) -> State:
    """A file with one spelling after the other, module by module."""
    file: State = {}
    for (module, adapter), spelling in zip(adapters.items(), spellings, strict=True):
        down, up = SPELLINGS[spelling]
        file |= {module + down: adapter["A"], module + up: adapter["B"]}
    return file


def parsed_by_the_library(adapters: dict[str, dict[str, Tensor]]) -> dict[str, dict[str, Any]]:
    """What the UNet holds after load_lora_adapter of the same file, all in peft's spelling."""
    from peft.tuners.lora import LoraLayer

    unet = tiny.loaded(file_of(adapters, ["peft"] * len(adapters)))
    # Before 0.40 the rank of the first module is the alpha of all, in a file without alphas.
    field = "lora_alpha" if since("0.40") else "r"
    return {
        name: {
            "A": layer.lora_A["default_0"].weight,
            "B": layer.lora_B["default_0"].weight,
            "alpha": float(getattr(layer, field)["default_0"]),
        }
        for name, layer in unet.named_modules()
        if isinstance(layer, LoraLayer)
    }


@todo("8.6", guards="real factors, as the live library reads them")
def test_a_file_that_mixes_spellings(candidate: Any, draw: Draw) -> None:
    """The shipped adapter in all spellings at once is what the UNet loads from one of them."""
    adapters = draw_stripes(draw)
    spellings = draw.sample([*SPELLINGS] * 4, len(adapters))
    answer = candidate.parse_state_dict(file_of(adapters, spellings))
    held = {name: {**adapter, "alpha": len(adapter["A"])} for name, adapter in adapters.items()}
    library = functools.cache(lambda: parsed_by_the_library(adapters))
    assert_parsed(answer, held, "a file of mixed spellings", library)


UNKNOWN = {
    "another name": ".lora_C.weight",
    "a bias": ".lora_B.bias",
    "a magnitude": ".lora_magnitude_vector",
    "a plain weight": ".weight",
    "a scale": ".dora_scale",
    "a bias of A": ".lora_A.bias",
    "a middle factor": ".lora_mid.weight",
    "another alpha": ".network_alpha",
    "an adapter's name": ".lora_A.default.weight",
    "an alpha without a dot": "_alpha",
    "an alpha in capitals": ".Alpha",
    "a weight of alpha": ".alpha.weight",
}
UNKNOWN_PAIRS = {
    "a dot in peft's": (".lora.A.weight", ".lora.B.weight"),
    "no dot before peft's": ("_lora_A.weight", "_lora_B.weight"),
    "no dot before Kohya's": ("_lora_down.weight", "_lora_up.weight"),
    "no dot before weight": (".lora_A_weight", ".lora_B_weight"),
    "peft's without weight": (".lora_A", ".lora_B"),
    "diffusers' without weight": (".lora.down", ".lora.up"),
    "small letters": (".lora_a.weight", ".lora_b.weight"),
    "another sign": (".lora-down.weight", ".lora-up.weight"),
    "no lora": (".down.weight", ".up.weight"),
    "no sign": (".loraA.weight", ".loraB.weight"),
}


@todo("8.6", guards="keys beside whole adapters, each in a form of its own")
@pytest.mark.parametrize("key", UNKNOWN)
def test_an_unknown_key_is_refused(candidate: Any, draw: Draw, key: str) -> None:
    """A key of another form is a ValueError: it would change the picture, and nobody would know."""
    file, held = draw_file(draw, draw.choice([*SPELLINGS]), 5)
    prefix = draw.choice(sorted(held))
    file[prefix + UNKNOWN[key]] = draw.latents(1)[0]
    assert_raises(
        lambda: candidate.parse_state_dict(file),
        "ValueError",
        what=f"a key ending in {UNKNOWN[key]}",
    )


@todo("8.6", guards="spellings that are nearly one of the three")
@pytest.mark.parametrize("pair", UNKNOWN_PAIRS)
def test_a_pair_of_unknown_keys_is_refused(candidate: Any, draw: Draw, pair: str) -> None:
    """Two factors that belong together, in a spelling of nobody's, are a ValueError."""
    file, _ = draw_file(draw, draw.choice([*SPELLINGS]), 5)
    down, up = UNKNOWN_PAIRS[pair]
    rank = draw.integer(2, 8)
    file |= {f"mid.to_q{down}": draw.latents(rank, 5), f"mid.to_q{up}": draw.latents(6, rank)}
    assert_raises(
        lambda: candidate.parse_state_dict(file),
        "ValueError",
        what=f"keys ending in {down} and {up}",
    )


@todo("8.6")
@pytest.mark.parametrize(
    "left", ["A alone", "B alone", "alpha alone", "A and alpha", "B and alpha"]
)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_half_an_adapter_is_refused(candidate: Any, draw: Draw, spelling: str, left: str) -> None:
    """An adapter whose other factor is missing is a ValueError."""
    file, held = draw_file(draw, spelling, 5)
    prefix = draw.choice(sorted(held))
    down, up = SPELLINGS[spelling]
    ends = {"A": down, "B": up, "alpha": ".alpha"}
    for part, end in ends.items():
        if part not in left.split():
            del file[prefix + end]
    assert_raises(
        lambda: candidate.parse_state_dict(file), "ValueError", what=f"an adapter with {left}"
    )
