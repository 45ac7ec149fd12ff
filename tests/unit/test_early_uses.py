"""Where a suite uses an answer before an assertion has passed it, found by reading the suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from infralens.authoring.early_uses import suspect_uses
from infralens.labs import Lab, find_labs

USES = {
    "assert_equals(1, library=lambda: mine)": "a closure of library",
    "assert_matches(1.0, library=lambda: 1.0, truth=lambda: mine.sum())": "a closure of truth",
    "assert_property(mine, equals=lambda: mine)": "a closure of equals",
    "assert_equals(mine[0] + 1, value=2)": "arithmetic",
    "assert_equals(mine > 0, value=True)": "a comparison",
    "assert_equals(float(mine), value=1.0)": "handed to float",
    "assert_equals(torch.linalg.norm(mine), value=1.0)": "handed to torch.linalg.norm",
    "assert_equals(mine.double(), value=1.0)": "`.double()`",
    "assert_equals([part * 2 for part in mine], value=1.0)": "arithmetic",
    "assert_equals(helped(mine), value=1.0)": "arithmetic",
    "a, b = unpack(mine, 'a', 'b'); assert_equals(a - 1, value=1)": "arithmetic",
    "assert_equals(1, value=mine)": "mine as value of an assertion",
    "assert_equals(1 if mine else 2, value=1)": "mine as a condition",
    "assert_equals(not mine, value=1)": "mine as a condition",
    "assert_equals(mine and 1, value=1)": "mine as a condition",
    "assert_equals([a for a in [1] if mine], value=1)": "mine as a condition",
    "if mine: assert_equals(1, value=1)": "mine as a condition",
    "assert_equals(f'{mine:.3f}', value='1')": "mine as text",
    "assert_equals('{:.3f}'.format(mine), value='1')": "handed to '{:.3f}'.format",
    "assert_tensor(torch.ones(1), shape=mine)": "mine as shape of an assertion",
    "case = Case(1); assert_equals(case.made(mine), value=1)": "arithmetic",
    "case = Case(1); assert_equals(case.answered(candidate) + 1, value=1)": "arithmetic",
    "assert_equals(Case(1).answered(candidate) > 0, value=True)": "a comparison",
    "case = Case(mine); assert_equals(case.more(), value=1)": "arithmetic",
    "denoiser = recorded(max); candidate.g(denoiser); max(denoiser.calls[0])": "handed to max",
}
CLEAN = (
    "assert_equals(mine, library=lambda: 1); assert_equals(mine + 1, value=2)",
    "assert_tensor(mine, shape=(1,)); assert_property(1.0, equals=lambda: mine.sum())",
    "assert_equals(tuple(mine.shape), value=(1,))",
    "candidate.g(mine); assert_equals(unpack(mine, 'a', 'b')[0], value=1)",
    "assert_equals([isinstance(part, float) for part in mine], value=[True])",
    "helped_after(mine); assert_equals(mine + 1, value=2)",
    "denoiser = recorded(max); denoiser(1); assert_equals(denoiser.calls[0] + 1, value=1)",
    "for i, part in enumerate(mine): assert_equals(part, library=lambda: i + 1)",
    "assert_equals(mine, value=1); assert_equals(1, value=mine)",
    "case = Case(1); answer = case.looked_at(candidate); assert_equals(answer + 1, value=1)",
    "case = Case(1); assert_equals(case.more(), value=1)",
    "assert_form(mine, ['int']); assert_equals(mine[0] + 1, value=1)",
    "assert_equals(form_of(mine) == 'int', value=True)",
    "name = 'f'; assert_equals(getattr(candidate, name)(mine), value=1)",
    "assert_equals(1 if isinstance(mine, list) and len(mine) else 2, value=1)",
    "assert_equals([part for part in mine if part.endswith('a')], value=1)",
    "assert_equals(1 if mine is None else 2, value=1)",
    "assert_number(mine); assert_equals(f'{mine:.3f}' if mine else 0, value='1')",
)
HELPERS = """
def helped(x):
    y = x
    return y * 2

def helped_after(x):
    assert_equals(x, value=1)
    return x * 2

class Case:
    def __init__(self, number):
        self.number = number

    def more(self):
        return self.number + 1

    def made(self, x):
        return 2 * x

    def answered(self, candidate):
        return candidate.f(self.number)

    def looked_at(self, candidate):
        answer = self.answered(candidate)
        assert_number(answer)
        return answer
"""


def uses_in(folder: Path, line: str) -> list[str]:
    check = f"{HELPERS}\ndef test_one(candidate):\n    mine = candidate.f(1)\n"
    # `a; for …` is no Python: a loop stands in a line of its own.
    check += "".join(f"    {part}\n" for part in line.split("; "))
    (folder / "test_it.py").write_text(check, encoding="utf-8")
    return [f"{use.line}: {use.sentence}" for use in suspect_uses(folder)]


@pytest.mark.parametrize(("line", "says"), USES.items())
def test_a_use_is_found(tmp_path: Path, line: str, says: str) -> None:
    (found, *others) = uses_in(tmp_path, line)
    assert says in found
    assert not others


@pytest.mark.parametrize("line", CLEAN)
def test_what_has_been_passed_may_be_used(tmp_path: Path, line: str) -> None:
    assert uses_in(tmp_path, line) == []


@pytest.mark.parametrize("lab", find_labs(), ids=lambda lab: lab.id)
def test_no_suite_uses_an_answer_that_nothing_has_looked_at(lab: Lab) -> None:
    found = [str(use) for use in suspect_uses(lab.suite)]
    assert not found, "\n".join(found)
