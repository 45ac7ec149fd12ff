"""A suite is collected once; what runs without a session of pytest does so from then on."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from infralens.examiner.run.cases import Case, case_of, runs_alone
from infralens.examiner.run.plugin import PLAIN_PYTEST
from infralens.report import Report

SUITE = """
import pytest
from infralens.examiner import todo

@pytest.fixture
def drawn(draw):
    return draw.integer(1, 9)

@pytest.fixture
def doubled(request):
    return request.param * 2

@todo("90.1", guards="the order", again=False)
@pytest.mark.parametrize("kind", ["a", "b"])
@pytest.mark.parametrize(("low", "high"), [(1, 2)])
def test_plain(candidate, draw, kind, low, high):
    '''The title.

    More.'''

@todo("90.1")
def test_on_a_device(candidate, device):
    pass

@todo("90.2")
def test_fixture_of_its_own(candidate, drawn):
    pass

@todo("90.2")
@pytest.mark.parametrize("doubled", [1], indirect=True)
def test_indirect(candidate, doubled):
    pass

@todo("90.2")
@pytest.mark.skip
def test_skipped(candidate):
    pass

@todo("90.2")
@pytest.mark.usefixtures("drawn")
def test_surrounded(candidate):
    pass

class TestOfAClass:
    @todo("90.2")
    def test_method(self, candidate):
        pass
"""
OVERRIDES = """
import pytest
from infralens.examiner import todo

@pytest.fixture
def device():
    return "meta"

@todo("90.1")
def test_overridden(candidate, device):
    pass
"""


class Given:
    """What a run gives, and the items that it collects."""

    items: tuple[pytest.Item, ...] = ()

    @pytest.fixture
    def candidate(self) -> None: ...

    @pytest.fixture
    def draw(self, request: pytest.FixtureRequest) -> None: ...

    @pytest.fixture
    def device(self) -> None: ...

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "todo(id): as a run knows it")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = tuple(items)
        items.clear()


@pytest.fixture
def collected(tmp_path: Path) -> dict[str, tuple[Case, bool]]:
    """Each case, and whether it runs alone."""
    given = Given()
    paths = []
    for name, text in (("plain", SUITE), ("overrides", OVERRIDES)):
        paths.append(tmp_path / f"test_93_{name}.py")
        paths[-1].write_text(textwrap.dedent(text), encoding="utf-8")
    pytest.main([*PLAIN_PYTEST, f"--rootdir={tmp_path}", *map(str, paths)], plugins=[given])
    return {item.name: (case_of(item), runs_alone(item)) for item in given.items}


def test_a_plain_function_runs_alone_and_nothing_else_does(
    collected: dict[str, tuple[Case, bool]],
) -> None:
    alone = {name for name, (_, plain) in collected.items() if plain}
    assert alone == {"test_plain[1-2-a]", "test_plain[1-2-b]", "test_on_a_device"}
    assert len(collected) == 9


def test_a_case_knows_what_its_item_says(collected: dict[str, tuple[Case, bool]]) -> None:
    case, _ = collected["test_plain[1-2-b]"]
    assert case.id == "test_93_plain.py::test_plain[1-2-b]"
    assert (case.check, case.title, case.todo) == ("test_plain", "The title.", "90.1")
    assert (case.guards, case.again, case.is_canary) == ("the order", False, False)
    assert case.given == ("candidate", "draw")
    assert case.params == {"kind": "b", "low": 1, "high": 2}


def in_words(report: Report) -> Any:
    checks = [(check.name, check.status, check.message) for check in report.todos[0].checks]
    return report.grader_error, report.score, checks


def test_a_suite_comes_to_the_same_when_it_is_run_again(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    @pytest.mark.parametrize("times", [2, 3])
    def test_times(candidate, draw, times):
        number = draw.integer(1, 10**9)
        assert_equals(candidate.times(number, times), value=number * times, what="the product")

    @todo("90.1")
    def test_device(candidate, device):
        assert_equals(candidate.echo(device), value="cpu", what="the device")
    """
    lab = workshop.lab(suite)
    texts = (
        "def times(x, n): return x * n\ndef echo(x): return x\n",
        "def times(x, n): return x * 2\ndef echo(x): return x\n",
        "def times(x, n): return x * n\ndef echo(x): return 'it'\n",
    )
    first, again = (
        [in_words(workshop.grade(lab, text, seed=5)) for text in texts] for _ in range(2)
    )
    assert first == again
    assert [score for _, score, _ in first] == [2, 0, 0]


def test_a_check_that_ends_the_run_is_a_fault_each_time(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    def test_one(candidate):
        candidate.one()
        raise SystemExit
    """
    lab = workshop.lab(suite)
    said = {workshop.grade(lab, "def one(): return 1\n").grader_error for _ in range(3)}
    assert said == {"test_one did not report"}
