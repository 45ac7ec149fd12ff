"""Lab and Todo: what exists, read from the suites' `lab.yaml`."""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from infralens.documents import UnfitDocumentError, judge_of, read_yaml

DEFAULT_TRACK = "diffusers"
PACKAGE = Path(__file__).resolve().parent
SCHEMA = PACKAGE / "lab.schema.json"
MOST_BYTES = 256 << 10
MOST_TOLD = 60
TRACK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}")  # it is told wherever a lab is


class UnknownLabError(LookupError):
    """No lab or todo has this name; the text says which one is nearest."""


class BadLabError(ValueError):
    """A `lab.yaml` that does not say what it must; the text says where and what."""


@dataclass(frozen=True)
class Source:
    """The library's own function behind a todo, by its dotted name, and a question about it.

    `at` is a text in the first line that matters; without one it is the first of the body.
    """

    name: str
    asks: str
    at: str = ""


@dataclass(frozen=True)
class Todo:
    """One thing to implement. `names` are the learner's functions and classes that belong to it."""

    id: str
    title: str
    points: int
    names: tuple[str, ...]
    hints: tuple[str, ...] = ()
    source: Source | None = None


@dataclass(frozen=True)
class Limits:
    """What a submission may use: seconds for one call, seconds for a lab, MiB for its processes."""

    call_seconds: float = 10.0
    lab_seconds: float = 120.0
    memory_mb: int = 2048


@dataclass(frozen=True)
class Place:
    """A folder of labs in three parts. `solutions` is absent from what learners are handed."""

    suites: Path
    exercises: Path
    solutions: Path | None


@dataclass(frozen=True)
class Lab:
    """One exercise. `id` is `track/lab-NN`; `folder` is its name under exercises and solutions.

    `masked` are modules that a submission may not import; `loaded` are slow ones that it and the
    checks will need, imported in both processes before its time begins. It runs in so many
    `processes`, one more for each memory budget of the checks; so many are started ahead.
    """

    id: str
    title: str
    goal: str
    file: str
    folder: str
    reading: str
    todos: tuple[Todo, ...]
    masked: tuple[str, ...]
    loaded: tuple[str, ...]
    processes: int
    dtypes: tuple[str, ...]
    limits: Limits
    suite: Path
    place: Place

    @property
    def track(self) -> str:
        return self.id.split("/")[0]

    @property
    def name(self) -> str:
        return self.id.split("/")[1]

    @property
    def short(self) -> str:
        """The shortest name that a command takes: no track for the default track."""
        return self.name if self.track == DEFAULT_TRACK else self.id

    @property
    def max_score(self) -> int:
        return sum(todo.points for todo in self.todos)

    @property
    def stub(self) -> Path:
        return self.place.exercises / self.track / self.folder / self.file

    @property
    def page(self) -> Path:
        return self.place.exercises / self.track / self.folder / "README.md"

    @property
    def solution(self) -> Path | None:
        root = self.place.solutions
        return None if root is None else root / self.track / self.folder / self.file

    @cached_property
    def todo_of_name(self) -> dict[str, Todo]:
        return {name: todo for todo in self.todos for name in todo.names}

    def todo(self, todo_id: str) -> Todo:
        """The todo `3.2` (or `diffsynth/4.1`) of this lab."""
        track, _, wanted = todo_id.strip().rpartition("/")
        for todo in self.todos:
            if todo.id == wanted and track in ("", self.track):
                return todo
        has = ", ".join(todo.id for todo in self.todos)
        raise UnknownLabError(f"{self.short} has no todo {_cut(todo_id)}; it has {has}.")


def own_place() -> Place:
    """Where this installation's labs lie: in the package (wheel) or in the checkout (editable)."""
    return Place(PACKAGE / "suites", home() / "exercises", home() / "solutions")


def home() -> Path:
    """Where what is not code lies: in the package (wheel) or in the checkout (editable)."""
    return PACKAGE if is_installed() else PACKAGE.parents[1]


def is_installed() -> bool:
    """Whether this is a wheel's copy of the package, and no checkout."""
    return (PACKAGE / "exercises").is_dir()


def place_at(folder: Path) -> Place:
    """Labs outside the package: a folder with `suites/`, `exercises/` and perhaps `solutions/`."""
    solutions = folder / "solutions"
    if not (folder / "suites").is_dir():
        raise BadLabError(f"{folder} has no folder suites/; labs are looked for there.")
    return Place(folder / "suites", folder / "exercises", solutions if solutions.is_dir() else None)


def find_labs(extra: Iterable[Path] = ()) -> tuple[Lab, ...]:
    """Every lab, in order of track and number; the default track comes first."""
    roots = dict.fromkeys(folder.resolve() for folder in extra)
    places = [own_place(), *(place_at(folder) for folder in roots)]
    labs: dict[str, Lab] = {}
    owners: dict[tuple[str, str], Lab] = {}
    for place in places:
        for path in sorted(place.suites.glob("*/lab_*/lab.yaml")):
            lab = read_lab(path, place)
            if lab.id in labs:
                both = f"{labs[lab.id].suite} and {lab.suite}"
                raise BadLabError(f"Two labs are called {lab.id}: {both}. Rename one folder.")
            labs[lab.id] = lab
            for todo in lab.todos:
                other = owners.setdefault((lab.track, todo.id), lab)
                if other is not lab:
                    both = f"{other.suite} and {lab.suite}"
                    raise BadLabError(f"Two labs have a todo {todo.id}: {both}. Number one anew.")
    return tuple(sorted(labs.values(), key=lambda lab: (lab.track != DEFAULT_TRACK, lab.id)))


def read_lab(path: Path, place: Place) -> Lab:
    """Read one `lab.yaml`; its folder's name gives track, number and exercise folder."""
    try:
        data = read_yaml(path, judge_of(SCHEMA), most_bytes=MOST_BYTES)
    except UnfitDocumentError as error:
        raise BadLabError(f"{path} cannot be read: {error}.") from None
    match = re.fullmatch(r"lab_([0-9]{2})_\w+", path.parent.name)
    if match is None:
        raise BadLabError(f"{path}: its folder must be called like lab_03_scheduler_reading.")
    if TRACK.fullmatch(path.parent.parent.name) is None:
        raise BadLabError(f"{path}: its track's folder must be called like diffusers.")
    todos = tuple(_todo(entry) for entry in data["todos"])
    ids = [todo.id for todo in todos]
    if len(set(ids)) != len(ids):
        raise BadLabError(f"{path} lists a todo twice: {', '.join(ids)}.")
    names = [name for todo in todos for name in todo.names]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise BadLabError(f"{path} lists a name twice: {', '.join(twice)}. It belongs to one todo.")
    return Lab(
        id=f"{path.parent.parent.name}/lab-{match[1]}",
        title=data["title"],
        goal=data["goal"].strip(),
        file=data["file"],
        folder=path.parent.name.replace("_", "-"),
        reading=data["reading"],
        todos=todos,
        masked=tuple(data.get("masked", ())),
        loaded=tuple(data.get("loaded", ())),
        processes=int(data.get("processes", 1)),
        dtypes=tuple(data.get("dtypes", ("float32",))),
        limits=Limits(**data.get("limits", {})),
        suite=path.parent,
        place=place,
    )


def _todo(entry: dict[str, Any]) -> Todo:
    return Todo(
        id=entry["id"],
        title=entry["title"],
        points=int(entry["points"]),  # 2.0 is a whole number in a schema
        names=tuple(entry["names"]),
        hints=tuple(hint.strip() for hint in entry.get("hints", ())),
        source=Source(**entry["source"]) if "source" in entry else None,
    )


def missing_module(lab: Lab) -> str | None:
    """The first module of `loaded` that is not installed. Nothing is imported to find out."""
    return next((name for name in lab.loaded if not _is_installed(name)), None)


def _is_installed(name: str) -> bool:
    top, *inner = name.split(".")
    # importlib would import the parents of the others, and tells of what is loaded what that says
    # of itself: transformers, once imported, hides its parts.
    spec = PathFinder.find_spec(top) or importlib.util.find_spec(top)
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return False
        top = f"{top}.{part}"
        spec = PathFinder.find_spec(top, list(spec.submodule_search_locations))
    return spec is not None


def find_lab(name: str, labs: Sequence[Lab]) -> Lab:
    """The lab called `lab-03`, `diffusers/lab-03`, `3`, or by its folder's name."""
    wanted = name.strip().rstrip("/").lower()
    for lab in labs:
        if wanted in _names_of(lab):
            return lab
    parts = Path(
        os.path.normpath(Path(name).absolute())
    ).parts  # a link may be called what it likes
    for lab in labs:
        if (lab.track, lab.folder) in (parts[-2:], parts[-3:-1]) and parts[-1] in (
            lab.folder,
            lab.file,
        ):
            return lab
    for lab, todo in _with_their_todos(labs):
        if wanted == todo_name(lab, todo):
            raise UnknownLabError(f"{name} is a todo of {lab.short}; name the lab here.")
    known = [lab.short for lab in labs]
    near = difflib.get_close_matches(_as_lab(wanted[:MOST_TOLD]), known, n=1, cutoff=0.5)
    advice = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
    raise UnknownLabError(f"There is no lab {_cut(name)!r}. {advice}")


def find_todo(name: str, labs: Sequence[Lab]) -> tuple[Lab, Todo]:
    """The lab and todo called `3.2` or `diffsynth/4.1`."""
    track, _, number = name.strip().rpartition("/")
    for lab, todo in _with_their_todos(labs):
        if lab.track == (track or DEFAULT_TRACK) and todo.id == number:
            return lab, todo
    for lab in labs:
        if name.strip().rstrip("/").lower() in _names_of(lab):
            ids = ", ".join(todo_name(lab, todo) for todo in lab.todos)
            raise UnknownLabError(f"{name} is a lab; name one of its todos: {ids}.")
    known = [todo_name(lab, todo) for lab, todo in _with_their_todos(labs)]
    near = difflib.get_close_matches(name[:MOST_TOLD], known, n=1, cutoff=0.4)
    advice = f"Did you mean {near[0]}?" if near else "`infralens list` shows what there is."
    raise UnknownLabError(f"There is no todo {_cut(name)!r}. {advice}")


def _cut(name: str) -> str:
    """A name as it is told: nobody reads five thousand letters."""
    return name if len(name) <= MOST_TOLD else f"{name[:MOST_TOLD]}…"


def _with_their_todos(labs: Sequence[Lab]) -> Iterator[tuple[Lab, Todo]]:
    for lab in labs:
        for todo in lab.todos:
            yield lab, todo


def todo_name(lab: Lab, todo: Todo) -> str:
    """The shortest name that a command takes for it."""
    return todo.id if lab.track == DEFAULT_TRACK else f"{lab.track}/{todo.id}"


def _as_lab(name: str) -> str:
    match = re.fullmatch(r"(?:lab)?[-_ ]?0*(\d+)", name)
    return f"lab-{int(match[1]):02d}" if match else name


def _names_of(lab: Lab) -> set[str]:
    number = int(lab.name.removeprefix("lab-"))
    bare = {lab.name, f"lab-{number}", f"lab{number:02d}", f"{number}", f"{number:02d}", lab.folder}
    qualified = {f"{lab.track}/{name}" for name in bare}
    return qualified | bare if lab.track == DEFAULT_TRACK else qualified | {lab.folder}
