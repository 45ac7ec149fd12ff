"""A learner's folder: nothing of theirs is overwritten, no points are lost, none is half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infralens import workspace
from infralens.labs import Place, find_lab, find_labs
from infralens.regular import read_regular, write_below, write_new, write_out, write_whole
from infralens.workspace import (
    NoWorkspaceError,
    Progress,
    TodoProgress,
    Workspace,
    backup_of,
    find_workspace,
    init,
    read_progress,
    record,
    require_workspace,
    updating,
)

LAB = find_lab("lab-03", find_labs())


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    (tmp_path / ".infralens").mkdir()
    return Workspace(tmp_path)


@pytest.fixture
def report(report_of: Any) -> Any:
    return report_of(("3.1", 2, "passed", ()), ("3.2", 2, "failed", ()))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# Making one


def test_init_writes_every_exercise_and_no_solution(tmp_path: Path) -> None:
    made, written, kept = init(tmp_path / "work")
    assert kept == 0
    assert made.file(LAB).is_file()
    assert "NotImplementedError" in made.file(LAB).read_text(encoding="utf-8")
    assert written == sum(path.is_file() for path in (tmp_path / "work").rglob("*"))
    assert find_workspace(tmp_path / "work") == made


def test_init_keeps_what_is_there(tmp_path: Path) -> None:
    made, written, _ = init(tmp_path)
    made.file(LAB).write_text("my work", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    _, again, kept = init(tmp_path)
    assert (again, kept) == (0, written)
    assert made.file(LAB).read_text(encoding="utf-8") == "my work"
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_init_does_not_care_what_the_folders_above_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercises = tmp_path / ".infralens" / "exercises"
    exercises.mkdir(parents=True)
    (exercises / "page.md").write_text("x", encoding="utf-8")
    place = Place(tmp_path / "suites", exercises, None)
    monkeypatch.setattr(workspace, "own_place", lambda: place)
    assert init(tmp_path / "work")[1] == 1


def test_init_over_a_file_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "diffusers").write_text("a file", encoding="utf-8")
    with pytest.raises(OSError, match=r"."):
        init(tmp_path)


def test_a_workspace_is_found_from_inside_it(here: Workspace) -> None:
    inside = here.root / "diffusers" / "lab-03"
    inside.mkdir(parents=True)
    assert find_workspace(inside) == here


def test_the_exercises_of_a_checkout_are_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "exercises" / "handbook").mkdir(parents=True)
    assert find_workspace(tmp_path) == Workspace(tmp_path / "exercises")
    assert find_workspace(tmp_path / "exercises") == Workspace(tmp_path / "exercises")


def test_no_workspace_is_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoWorkspaceError, match="infralens init"):
        require_workspace(tmp_path)


# Writing whole or not at all


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    write_whole(tmp_path / "a" / "b.txt", "σ\n")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "σ\n".encode()
    assert names(tmp_path / "a") == {"b.txt"}


@pytest.mark.parametrize("moment", ["fsync", "fdopen"])
def test_a_crash_while_writing_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = tmp_path / "progress.json"
    write_whole(path, "old")

    def crash(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, moment, crash)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new " * 1000)
    assert path.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == {"progress.json"}


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_a_written_file_has_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        write_whole(tmp_path / "a", "x")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


# Progress


def test_points_are_kept_and_added_up(here: Workspace, report: Any) -> None:
    assert record(here, report) is None
    progress, complaint = read_progress(here)
    assert complaint is None
    assert progress.labs["diffusers/lab-03"]["3.1"] == TodoProgress(2, 2, "passed")
    assert progress.score(LAB) == 2


def test_a_grade_of_one_todo_keeps_the_others(here: Workspace, report: Any, report_of: Any) -> None:
    record(here, report)
    record(here, report_of(("3.2", 2, "passed", ())))
    assert read_progress(here)[0].score(LAB) == 4


def test_a_run_in_which_the_grader_failed_changes_nothing(
    here: Workspace, report: Any, report_of: Any
) -> None:
    record(here, report)
    record(here, report_of(("3.1", 2, "error", ()), fault="broken"))
    assert read_progress(here)[0].score(LAB) == 2


def test_hints_are_counted_beside_the_points(here: Workspace, report: Any) -> None:
    with updating(here) as holder:
        holder[0] = holder[0].hinted("diffusers/3.1", 2)
    record(here, report)
    assert read_progress(here)[0].hints == {"diffusers/3.1": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 2, "labs": {}, "hints": {}}',
        '{"schema": 1, "labs": {"x": {"3.1": {"points": 2}}}, "hints": {}}',
        '{"schema": 1, "labs": {}, "hints": {"3.1": "x"}}',
        '{"schema": 1, "labs": [], "hints": {}}',
        '{"schema": 1, "hints": {}, "labs":{"x": {"3": {"score": "", "points": 1, "status": ""}}}}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:60],
)
def test_a_damaged_file_is_kept_aside_and_progress_starts_anew(here: Workspace, text: str) -> None:
    path = here.state / "progress.json"
    path.write_text(text, encoding="utf-8")
    progress, complaint = read_progress(here)
    assert progress == Progress()
    assert complaint is not None
    assert "damaged" in complaint
    (aside,) = here.state.glob("progress.damaged-*.json")
    assert aside.name in complaint
    assert aside.read_text(encoding="utf-8") == text
    assert not path.exists()


def test_a_second_damaged_file_does_not_replace_the_first(here: Workspace) -> None:
    for text in ("first", "second"):
        (here.state / "progress.json").write_text(text, encoding="utf-8")
        read_progress(here)
    kept = {path.read_text(encoding="utf-8") for path in here.state.glob("progress.damaged-*")}
    assert kept == {"first", "second"}


def test_the_damage_is_told_when_points_are_kept(here: Workspace, report: Any) -> None:
    (here.state / "progress.json").write_text("{", encoding="utf-8")
    complaint = record(here, report)
    assert complaint is not None
    assert "damaged" in complaint
    assert read_progress(here)[0].score(LAB) == 2


def test_a_progress_file_that_cannot_be_read_is_a_sentence(here: Workspace) -> None:
    (here.state / "progress.json").mkdir()
    progress, complaint = read_progress(here)
    assert progress == Progress()
    assert complaint is not None
    assert "cannot be read" in complaint


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path, report: Any) -> None:
    (tmp_path / ".infralens").write_text("a file where the folder belongs", encoding="utf-8")
    complaint = record(Workspace(tmp_path), report)
    assert complaint is not None
    assert complaint.startswith("Your points were not kept")


def test_a_full_disk_is_a_sentence_and_the_old_points_stay(
    here: Workspace, report: Any, report_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(here, report)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    complaint = record(here, report_of(("3.2", 2, "passed", ())))
    assert complaint == "Your points were not kept: No space left on device."
    assert read_progress(here)[0].score(LAB) == 2


def test_another_infralens_that_holds_the_lock_is_a_sentence(
    here: Workspace, report: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filelock import FileLock

    monkeypatch.setattr(workspace, "LOCK_SECONDS", 0.1)
    with FileLock(here.state / "lock"):
        complaint = record(here, report)
    assert complaint is not None
    assert "another infralens holds" in complaint


COUNT = """
import sys
from pathlib import Path
from infralens.workspace import Workspace, updating
for number in range(40):
    with updating(Workspace(Path(sys.argv[1]))) as holder:
        count = holder[0].hints.get("shared", 0)
        holder[0] = holder[0].hinted("shared", count + 1).hinted(sys.argv[2] + str(number), 1)
"""


def test_two_processes_that_update_at_once_lose_nothing(here: Workspace) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", COUNT, str(here.root), name]) for name in "ab"
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    hints = read_progress(here)[0].hints
    assert hints["shared"] == 80
    assert len(hints) == 81


def test_the_progress_file_is_json_that_a_person_can_read(here: Workspace, report: Any) -> None:
    record(here, report)
    text = (here.state / "progress.json").read_text(encoding="utf-8")
    assert json.loads(text)["schema"] == 1
    assert text.count("\n") > 5


def test_backups_never_take_a_name_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.py"
    first = backup_of(path)
    first.write_text("", encoding="utf-8")
    assert (first.name, backup_of(path).name) == ("scheduler.backup-1.py", "scheduler.backup-2.py")


# What is no regular file, and links


def spoil(path: Path, kind: str, outside: Path) -> None:
    """Put something else where a file of ours belongs."""
    if kind == "fifo":
        os.mkfifo(path)
    else:
        targets = {"endless": "/dev/zero", "dangling": outside / "new", "link": outside / "theirs"}
        path.symlink_to(targets[kind])


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "theirs").write_text("theirs", encoding="utf-8")
    return folder


KINDS = ["fifo", "endless", "dangling", "link"]
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")


@posix
@pytest.mark.parametrize("kind", KINDS)
def test_progress_that_is_no_regular_file_is_a_sentence_and_stays(
    here: Workspace, report: Any, outside: Path, kind: str
) -> None:
    path = here.state / "progress.json"
    spoil(path, kind, outside)
    before = path.lstat()
    progress, complaint = read_progress(here)
    assert progress == Progress()
    assert complaint is not None
    assert "cannot be read" in complaint
    kept = record(here, report)
    assert kept is not None
    assert kept.startswith("Your points were not kept")
    assert path.lstat() == before
    assert names(outside) == {"theirs"}
    assert (outside / "theirs").read_text("utf-8") == "theirs"


def test_damaged_progress_that_cannot_be_moved_is_a_sentence_and_stays(
    here: Workspace, report: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here.state / "progress.json").write_text("{", encoding="utf-8")

    def refuse(*given: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    assert "damaged and cannot be moved" in str(record(here, report))
    assert (here.state / "progress.json").read_text("utf-8") == "{"


def test_progress_that_is_too_large_is_a_sentence_and_stays(here: Workspace, report: Any) -> None:
    path = here.state / "progress.json"
    with path.open("wb") as file:
        file.truncate(2**36)
    assert "larger than" in str(read_progress(here)[1])
    assert "larger than" in str(record(here, report))
    assert path.stat().st_size == 2**36


@posix
@pytest.mark.parametrize("name", [".infralens", ".infralens/lock"])
def test_a_state_that_is_a_link_is_refused(
    tmp_path: Path, report: Any, outside: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(outside if name == ".infralens" else outside / "lock")
    complaint = record(Workspace(tmp_path), report)
    assert complaint is not None
    assert "is a symbolic link" in complaint
    assert names(outside) == {"theirs"}


@posix
def test_init_writes_through_no_link(tmp_path: Path, outside: Path) -> None:
    file = init(tmp_path / "pattern")[0].file(LAB).relative_to(tmp_path / "pattern")
    work = tmp_path / "work"
    (work / file).parent.mkdir(parents=True)
    (work / file).symlink_to(outside / "new")
    assert init(work)[2] == 1
    assert names(outside) == {"theirs"}
    other = tmp_path / "other"
    other.mkdir()
    (other / LAB.track).symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        init(other)
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / ".infralens").symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        init(tmp_path / "third")
    assert names(outside) == {"theirs"}


@posix
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_the_workspace_is_written_over_no_such_thing(
    tmp_path: Path, outside: Path, kind: str
) -> None:
    spoil(tmp_path / "a.py", kind, outside)
    with pytest.raises(OSError, match=r"link|no regular file"):
        write_below(tmp_path, tmp_path / "a.py", "x")
    assert not write_new(tmp_path, tmp_path / "a.py", b"x")
    assert (outside / "theirs").read_text("utf-8") == "theirs"


def test_a_full_disk_leaves_no_half_of_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_new(tmp_path, tmp_path / "a.backup-1.py", b"mine")
    assert names(tmp_path) == set()


# Where the user says


def test_an_output_needs_its_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="there is no folder"):
        write_out(tmp_path / "a" / "b", "x")
    write_out(tmp_path / "b", "x")
    write_out(tmp_path / "b", "y")
    assert (tmp_path / "b").read_text("utf-8") == "y"


@posix
def test_an_output_through_a_link_leaves_the_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "latest").symlink_to(outside / "theirs")
    write_out(tmp_path / "latest", "new")
    assert (tmp_path / "latest").is_symlink()
    assert (outside / "theirs").read_text("utf-8") == "new"


@posix
def test_devices_and_pipes_are_written_to_and_stay(tmp_path: Path) -> None:
    null = Path("/dev/null").stat()
    write_out(Path("/dev/null"), "x" * 100_000)
    assert Path("/dev/null").stat().st_rdev == null.st_rdev
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=r"."):
        write_out(pipe, "nobody reads this")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_out(pipe, "read")
        assert os.read(reader, 10) == b"read"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(OSError, match="no regular file"):
        read_regular(pipe, 10)
