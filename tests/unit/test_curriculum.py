"""The order of reading, and the heads and footers that are made from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from infralens.authoring.signposts import stale_signposts, write_signposts
from infralens.cli import main
from infralens.curriculum import FILE, Curriculum, read_curriculum
from infralens.labs import BadLabError, Place, find_labs, own_place, read_lab

LABS = find_labs()
PLACE = own_place()
PATH = read_curriculum(PLACE)
ONE = "{page: a, minutes: 5, difficulty: 1, needs: []}"
SLOWEST, FASTEST = 55, 170  # words a minute, code and formulas among them
WRITE = "run `check --write`"


def place_with(folder: Path, table: str) -> Place:
    (folder / "suites").mkdir(parents=True)
    (folder / "suites" / FILE).write_text(table, encoding="utf-8")
    return Place(folder / "suites", folder / "exercises", None)


def test_every_page_and_every_lab_has_its_place_on_the_path() -> None:
    pages = {page.stem for page in (PLACE.exercises / "handbook").glob("*.md")}
    assert {step.name for step in PATH.steps} == pages | {lab.id for lab in LABS}, FILE


def test_every_todo_has_a_difficulty() -> None:
    for lab in LABS:
        step = PATH.step(lab.id)
        assert step is not None
        assert list(step.todos) == [todo.id for todo in lab.todos], lab.id


def test_every_lab_needs_the_page_that_it_reads() -> None:
    for lab in LABS:
        page = lab.reading.partition("#")[0].removeprefix("handbook/").removesuffix(".md")
        step = PATH.step(lab.id)
        assert step is not None
        assert page in step.needs, lab.id


def test_the_minutes_of_a_page_are_those_of_somebody_who_reads_it() -> None:
    for step in PATH.pages:
        page = PLACE.exercises / "handbook" / f"{step.name}.md"
        pace = len(page.read_text(encoding="utf-8").split()) / step.minutes
        assert SLOWEST < pace < FASTEST, f"{step.name}: {pace:.0f} words a minute"


def test_heads_and_footers_are_what_the_table_makes() -> None:
    assert list(stale_signposts(LABS)) == [], WRITE


def test_a_stale_footer_is_found_and_written_once(tmp_path: Path) -> None:
    table = "steps:\n- {page: a, minutes: 5, difficulty: 1, needs: []}\n"
    place = place_with(tmp_path, table + "- {page: b, minutes: 9, difficulty: 3, needs: [a]}\n")
    handbook = place.exercises / "handbook"
    handbook.mkdir(parents=True)
    (handbook / "a.md").write_text("# A: first\n\nText.\n", encoding="utf-8")
    (handbook / "b.md").write_text("# B\n\nMore.\n", encoding="utf-8")
    shutil.copytree(LABS[0].suite, place.suites / "own" / LABS[0].suite.name)
    (own,) = [read_lab(path, place) for path in place.suites.glob("*/*/lab.yaml")]
    assert len(list(stale_signposts([own]))) == 2
    assert len(list(write_signposts([own]))) == 2
    assert list(write_signposts([own])) == []
    page = (handbook / "b.md").read_text(encoding="utf-8")
    assert page.startswith("# B\n\n<!-- head")
    assert "●●● · about 9 minutes" in page
    assert "* Before: [A](a.md)" in page
    edited = page.replace("about 9", "about 8").replace("More.", "Much more.")
    (handbook / "b.md").write_text(edited, encoding="utf-8")
    assert [path.name for path in write_signposts([own])] == ["b.md"]
    assert "Much more." in (handbook / "b.md").read_text(encoding="utf-8")


def test_before_a_lab_come_the_pages_since_the_lab_before_it(tmp_path: Path) -> None:
    row = "{{{}: {}, minutes: 5, difficulty: 1, needs: []}}"
    kinds = [("page", "a"), ("page", "b"), ("lab", "t/lab-01"), ("lab", "t/lab-02"), ("page", "c")]
    steps = ", ".join(row.format(*kind) for kind in [*kinds, ("lab", "t/lab-03")])
    path = read_curriculum(place_with(tmp_path, f"steps: [{steps}]\n"))
    before = [[page.name for page in path.pages_before(f"t/lab-0{n}")] for n in (1, 2, 3, 4)]
    assert before == [["a", "b"], [], ["c"], []]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("[{page: a, minutes: 5, difficulty: 1, needs: [b]}]", "needs b, which does not come"),
        ("[{page: a, minutes: 5, difficulty: 4, needs: []}]", "difficulty"),
        ("[{page: a, lab: t/lab-01, minutes: 5, difficulty: 1, needs: []}]", "one"),
        (f"[{ONE}, {ONE}]", "lists a twice"),
    ],
)
def test_a_table_that_cannot_be_walked_is_refused(tmp_path: Path, steps: str, says: str) -> None:
    with pytest.raises(BadLabError, match=says):
        read_curriculum(place_with(tmp_path, f"steps: {steps}\n"))


def test_a_folder_without_a_table_has_no_path(tmp_path: Path) -> None:
    assert read_curriculum(Place(tmp_path, tmp_path, None)) == Curriculum()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_contents_name_every_step_in_order(columns: int) -> None:
    told = CliRunner().invoke(main, ["read"], env={"COLUMNS": str(columns)}).stdout
    names = [step.name.removeprefix("diffusers/") for step in PATH.steps]
    places = [f"\n{told}".index(f"\n{name} ") for name in names]
    assert places == sorted(places)
    assert told.count("○") + told.count("●") == 3 * len(PATH.steps)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_list_tells_how_hard_and_how_long(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    told = CliRunner().invoke(main, ["list"], env={"COLUMNS": str(columns)}).stdout
    assert told.count("○") + told.count("●") == 3 * len(LABS)
    assert told.split().count("min") == len(LABS)
