"""Fresh inputs: the same for a seed and case, the same shapes and other values in another round."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from infralens.examiner.compare.inputs import Draw


def drawn(draw: Draw) -> dict[str, Any]:
    return {
        "integer": draw.integer(0, 10**9),
        "uniform": draw.uniform(0, 1),
        "choice": draw.choice(range(10**6)),
        "sample": draw.sample(range(10**6), 5),
        "latents": draw.latents(2, 3),
        "tensor": draw.tensor(4, low=2.0, high=3.0),
        "later": draw.integer(0, 10**9),
    }


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    def same(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) else bool(a == b)

    return {name for name in one if not same(one[name], other[name])}


def test_a_seed_and_a_case_give_the_same_inputs() -> None:
    assert differing(drawn(Draw(7, "case")), drawn(Draw(7, "case"))) == set()


@pytest.mark.parametrize("other", [Draw(8, "case"), Draw(7, "another")])
def test_another_seed_or_case_gives_others(other: Draw) -> None:
    assert len(differing(drawn(Draw(7, "case")), drawn(other))) == 7


def test_another_round_has_the_same_shapes_and_other_values() -> None:
    first, second = drawn(Draw(7, "case")), drawn(Draw(7, "case", round_=1))
    assert differing(first, second) == {"uniform", "latents", "tensor"}
    assert differing(second, drawn(Draw(7, "case", round_=1))) == set()


def test_what_draw_does_not_have_is_one_sentence_with_what_it_has() -> None:
    with pytest.raises(AttributeError) as caught:
        Draw(1, "case").whole(2, 3)
    said = str(caught.value)
    assert said.startswith("draw has no whole; it has integer(low, high), uniform(low, high)")
    assert "tensor(*shape, low=0.0, high=1.0, dtype=torch.float32)" in said


def test_the_methods_of_draw_stand_in_the_guide_as_they_are() -> None:
    guide = " ".join((Path(__file__).parents[2] / "grader/AUTHORING.md").read_text("utf-8").split())
    with pytest.raises(AttributeError) as caught:
        Draw(1, "case").nothing()
    for told in re.findall(r"\w+\([^)]*\)", str(caught.value)):
        assert f"`{told}`" in guide
