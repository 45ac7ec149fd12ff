"""Finding labs and todos by name; reading lab.yaml, and saying what is wrong with a bad one."""

from __future__ import annotations

import os
import sys
from copy import deepcopy
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from infralens.labs import (
    BadLabError,
    Lab,
    Place,
    UnknownLabError,
    find_lab,
    find_labs,
    find_todo,
    missing_module,
    place_at,
    read_lab,
)

GOOD: dict[str, Any] = {
    "title": "Denoising",
    "goal": " One step. ",
    "file": "step.py",
    "reading": "handbook/step.md#one",
    "masked": ["diffusers"],
    "todos": [
        {"id": "2.1", "title": "The step", "points": 3, "names": ["step", "Step"]},
        {"id": "2.2", "title": "The scale", "points": 1, "names": ["scale"], "hints": [" a "]},
    ],
}


def write(root: Path, data: Any, *, track: str = "diffusers", folder: str = "lab_02_step") -> Lab:
    home = root / "suites" / track / folder
    home.mkdir(parents=True, exist_ok=True)
    text = data if isinstance(data, bytes) else yaml.safe_dump(data).encode()
    (home / "lab.yaml").write_bytes(text)
    return read_lab(home / "lab.yaml", place_at(root))


@pytest.fixture
def labs(tmp_path: Path) -> list[Lab]:
    third = {**GOOD, "todos": [{**GOOD["todos"][0], "id": "3.1"}]}
    fourth = {**GOOD, "todos": [{**GOOD["todos"][0], "id": "4.1"}]}
    return [
        write(tmp_path, GOOD),
        write(tmp_path, third, folder="lab_03_scheduler_reading"),
        write(tmp_path, fourth, track="diffsynth", folder="lab_04_scheduler_loop"),
    ]


def test_everything_in_lab_yaml_is_read(tmp_path: Path) -> None:
    lab = write(tmp_path, GOOD)
    assert (lab.id, lab.track, lab.name, lab.short) == (
        "diffusers/lab-02",
        "diffusers",
        "lab-02",
        "lab-02",
    )
    assert (lab.title, lab.goal, lab.file, lab.folder) == (
        "Denoising",
        "One step.",
        "step.py",
        "lab-02-step",
    )
    assert lab.max_score == 4
    assert lab.todos[1].hints == ("a",)
    assert lab.masked == ("diffusers",)
    assert lab.dtypes == ("float32",)
    assert lab.todo_of_name["Step"].id == "2.1"
    assert lab.stub == tmp_path / "exercises/diffusers/lab-02-step/step.py"


def test_a_lab_of_another_track_is_short_only_with_its_track(labs: list[Lab]) -> None:
    assert labs[2].short == "diffsynth/lab-04"


@pytest.mark.parametrize(
    "name",
    [
        *("lab-03", "3", "03", "lab-3", "lab03", "LAB-03", " lab-03/", "diffusers/lab-03"),
        *("diffusers/3", "lab-03-scheduler-reading", "diffusers/lab-03-scheduler-reading"),
    ],
)
def test_a_lab_answers_to_its_names(labs: list[Lab], name: str) -> None:
    assert find_lab(name, labs).id == "diffusers/lab-03"


@pytest.mark.parametrize("name", ["diffsynth/lab-04", "diffsynth/4", "lab-04-scheduler-loop"])
def test_another_track_must_be_named(labs: list[Lab], name: str) -> None:
    assert find_lab(name, labs).id == "diffsynth/lab-04"
    with pytest.raises(UnknownLabError):
        find_lab("lab-04", labs)


@pytest.mark.parametrize(
    ("name", "near"),
    [("lab3", "lab-03"), ("lab_2", "lab-02"), ("difsynth/lab-04", "diffsynth/lab-04")],
)
def test_the_nearest_lab_is_suggested(labs: list[Lab], name: str, near: str) -> None:
    with pytest.raises(UnknownLabError, match=f"Did you mean {near}"):
        find_lab(name, labs)


def test_a_name_like_no_other_gets_the_list(labs: list[Lab]) -> None:
    with pytest.raises(UnknownLabError, match="There are: lab-02, lab-03, diffsynth/lab-04"):
        find_lab("xyzzy", labs)


def test_todos_are_found_across_labs(labs: list[Lab]) -> None:
    lab, todo = find_todo("3.1", labs)
    assert (lab.name, todo.id) == ("lab-03", "3.1")
    lab, todo = find_todo("diffsynth/4.1", labs)
    assert (lab.id, todo.id) == ("diffsynth/lab-04", "4.1")


def test_an_unknown_todo_suggests_the_nearest(labs: list[Lab]) -> None:
    with pytest.raises(UnknownLabError, match=r"Did you mean 2\.\d"):
        find_todo("2.7", labs)
    with pytest.raises(UnknownLabError, match=r"has no todo 9\.9; it has 2\.1, 2\.2"):
        labs[0].todo("9.9")


@pytest.mark.parametrize(
    ("name", "lab"), [("3.1", "lab-03"), ("diffsynth/4.1", "diffsynth/lab-04")]
)
def test_a_todo_where_a_lab_belongs_is_told_its_lab(labs: list[Lab], name: str, lab: str) -> None:
    with pytest.raises(UnknownLabError, match=f"{name} is a todo of {lab}; name the lab here"):
        find_lab(name, labs)


@pytest.mark.parametrize(
    ("name", "todos"), [("lab-02", r"2\.1, 2\.2"), ("diffsynth/lab-04", r"diffsynth/4\.1")]
)
def test_a_lab_where_a_todo_belongs_is_told_its_todos(
    labs: list[Lab], name: str, todos: str
) -> None:
    with pytest.raises(UnknownLabError, match=f"{name} is a lab; name one of its todos: {todos}"):
        find_todo(name, labs)


def test_labs_of_another_folder_stand_beside_our_own(tmp_path: Path) -> None:
    data = {**GOOD, "todos": [{**GOOD["todos"][0], "id": "77.1"}]}
    write(tmp_path, data, folder="lab_77_own")
    ids = [lab.id for lab in find_labs([tmp_path])]
    assert "diffusers/lab-77" in ids
    assert "diffusers/lab-03" in ids
    of_the_default_track = [name for name in ids if name.startswith("diffusers/")]
    assert ids[: len(of_the_default_track)] == sorted(of_the_default_track)


def test_place_at_knows_solutions_only_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    assert place_at(tmp_path) == Place(tmp_path / "suites", tmp_path / "exercises", None)
    (tmp_path / "solutions").mkdir()
    assert place_at(tmp_path).solutions == tmp_path / "solutions"


def test_place_at_a_folder_without_suites_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadLabError, match="has no folder suites/"):
        place_at(tmp_path)


def with_todo(**changes: Any) -> dict[str, Any]:
    return {**GOOD, "todos": [{**GOOD["todos"][0], **changes}]}


BAD = {
    "empty": (b"", "it must be object"),
    "no YAML": (b"a: [", "cannot be read"),
    "not UTF-8": (b"title: \xff", "cannot be read"),
    "a list": ([1], "cannot be read"),
    "no title": ({key: value for key, value in GOOD.items() if key != "title"}, "title"),
    "no reading": ({key: value for key, value in GOOD.items() if key != "reading"}, "reading"),
    "a todo without names": ({**GOOD, "todos": [{"id": "2.1", "title": "", "points": 1}]}, "names"),
    "points in words": (with_todo(points="two"), "two"),
    "names that are one text": (with_todo(names="step"), "names"),
    "masked that is one text": ({**GOOD, "masked": "diffusers"}, "masked"),
    "no process": ({**GOOD, "processes": 0}, "processes"),
    "an unknown limit": ({**GOOD, "limits": {"minutes": 3}}, "minutes"),
    "a todo twice": (
        {**GOOD, "todos": [deepcopy(GOOD["todos"][0]) for _ in "ab"]},
        "twice: 2.1, 2.1",
    ),
    "an unknown key": ({**GOOD, "colour": "red"}, "colour"),
    "a file outside": ({**GOOD, "file": "../../../victim/.bashrc"}, "file must match pattern"),
    "a file below": ({**GOOD, "file": "sub/step.py"}, "file must match pattern"),
    "a page outside": ({**GOOD, "reading": "handbook/../../victim.md"}, "reading must match"),
    "an unknown dtype": ({**GOOD, "dtypes": ["float31"]}, "dtypes"),
    "no dtype": ({**GOOD, "dtypes": []}, "dtypes"),
    "endless seconds": ({**GOOD, "limits": {"call_seconds": float("inf")}}, "inf is no number"),
    "seconds that are none": ({**GOOD, "limits": {"call_seconds": float("nan")}}, "nan is no num"),
    "negative seconds": ({**GOOD, "limits": {"lab_seconds": -1}}, "lab_seconds must be bigger"),
    "seconds in a list": ({**GOOD, "limits": {"call_seconds": [10]}}, "call_seconds must be num"),
    "an id without quotes": (with_todo(id=2.1), "id must be string, not 2.1"),
    "control characters": ({**GOOD, "title": "a\x1b[2J"}, "title must match"),
    "text that runs backwards": ({**GOOD, "title": "a\u202eb"}, "title must match"),
    "a hint that steers": (with_todo(hints=["a\x1b[2J"]), r"hints\[0\] must match"),
    "a goal that steers": ({**GOOD, "goal": "a\x9b2J"}, "goal must match"),
    "a key twice": (yaml.safe_dump(GOOD).encode() + b"title: another\n", "says title a second ti"),
    "a name in two todos": (
        {**GOOD, "todos": [GOOD["todos"][0], {**GOOD["todos"][1], "names": ["Step"]}]},
        "a name twice: Step",
    ),
    "deep": (b"title: " + b"[" * 900 + b"]" * 900, "more than 16 levels deep"),
    "very deep": (b"title: " + b"[" * 100_000, "cannot be read"),
    "large": (b"title: x\n#" + b"x" * 300_000, "larger than 262,144 bytes"),
    "aliases": (b"a: &a [x, x]\nb: &b [*a, *a]\ntitle: [*b, *b]", "line 1 has an anchor"),
    "a date that is none": (b"title: 2001-99-99", "cannot be read"),
}


@pytest.mark.parametrize(("data", "says"), BAD.values(), ids=BAD)
def test_a_bad_lab_yaml_says_where_and_what(tmp_path: Path, data: Any, says: str) -> None:
    with pytest.raises(BadLabError, match=says) as caught:
        write(tmp_path, data)
    assert "lab_02_step/lab.yaml" in str(caught.value)


def test_two_labs_of_one_id_are_told_apart_by_nobody(tmp_path: Path) -> None:
    data = {**GOOD, "todos": [{**GOOD["todos"][0], "id": "77.1"}]}
    write(tmp_path, data, folder="lab_77_one")
    write(tmp_path, data, folder="lab_77_two")
    with pytest.raises(BadLabError, match="Two labs are called diffusers/lab-77"):
        find_labs([tmp_path])


def test_two_todos_of_one_number_are_told_apart_by_nobody(tmp_path: Path) -> None:
    write(tmp_path, GOOD, folder="lab_77_one")
    with pytest.raises(BadLabError, match=r"Two labs have a todo 2\.1: .*lab_77_one"):
        find_labs([tmp_path])


@pytest.mark.skipif(os.name != "posix", reason="POSIX files")
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_a_lab_yaml_that_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "suites" / "diffusers" / "lab_77_one" / "lab.yaml"
    path.parent.mkdir(parents=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(BadLabError, match="it is no regular file"):
        find_labs([tmp_path])


def test_points_are_whole_numbers(tmp_path: Path) -> None:
    """YAML's 2.0 is one, and Python's is none: it would be kept as damaged progress."""
    assert type(write(tmp_path, with_todo(points=2.0)).todos[0].points) is int


def test_the_same_folder_named_twice_is_one_folder(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "todos": [{**GOOD["todos"][0], "id": "77.1"}]}, folder="lab_77_one")
    assert find_labs([tmp_path, tmp_path / "suites" / ".."]) == find_labs([tmp_path])


@pytest.mark.parametrize(
    ("loaded", "missing"),
    [
        (["nothing_of_this_name"], "nothing_of_this_name"),
        (["json", "json.nothing"], "json.nothing"),
        (["json.decoder.deeper"], "json.decoder.deeper"),
        (["sys", "json.decoder", "transformers.models.clip.modeling_clip"], None),
    ],
)
def test_a_module_that_is_not_there_is_found_without_imports(
    tmp_path: Path, loaded: list[str], missing: str | None
) -> None:
    assert missing_module(write(tmp_path, {**GOOD, "loaded": loaded})) == missing


def test_a_module_is_looked_for_where_it_lies_not_in_what_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hiding = ModuleType("transformers")
    hiding.__spec__ = ModuleSpec("transformers", None)  # it names no folder of its parts
    monkeypatch.setitem(sys.modules, "transformers", hiding)
    lab = write(tmp_path, {**GOOD, "loaded": ["transformers.models.clip.modeling_clip"]})
    assert missing_module(lab) is None


@pytest.mark.parametrize("track", ["a\x1b[2J", "two words", "-v", "a\u202eb", "a\nb"])
def test_a_track_has_a_plain_name(tmp_path: Path, track: str) -> None:
    with pytest.raises(BadLabError, match="must be called like diffusers"):
        write(tmp_path, GOOD, track=track)


def test_a_lab_folder_without_a_number_is_a_bad_lab(tmp_path: Path) -> None:
    with pytest.raises(BadLabError, match="lab_step"):
        find_lab("xyzzy", [write(tmp_path, GOOD, folder="lab_step")])
