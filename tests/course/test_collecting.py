"""What nbgrader collects from downloads, and the CSV that it exports."""

from __future__ import annotations

import csv
import os
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbgrader.api import MissingEntry
from nbgrader.apps.zipcollectapp import ZipCollectApp
from nbgrader.auth import Authenticator
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange import ExchangeFactory
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from infralens.course import ExportCsv
from infralens.course.nbgrader import CONFIG, _own_programs, _write_config
from infralens.course.record import Assignment, Record, write_record


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of labs 01 and 03, with its configuration and nothing handed in."""
    _write_config(tmp_path, ())
    labs = {f"lab-{n}": Assignment(f"diffusers/lab-{n}", 1, "everything", {}) for n in ("01", "03")}
    write_record(tmp_path, Record("0", labs))
    (tmp_path / "downloaded/lab-03/archive").mkdir(parents=True)
    return tmp_path


def collect(course: Path, caplog: pytest.LogCaptureFixture, **own: str) -> tuple[set[str], str]:
    """Run nbgrader's own zip_collect. The files in submitted/, and what was said."""
    config: Config = PyFileConfigLoader(CONFIG, path=str(course)).load_config()
    config.CourseDirectory.root = str(course)
    config.CourseDirectory.assignment_id = "lab-03"
    config.FileNameCollectorPlugin.update(own)
    app = ZipCollectApp(config=config, coursedir=CourseDirectory(config=config))
    app.log.propagate = True
    app.init_plugins()
    app.extract_archive_files()
    app.process_extracted_files()
    submitted = course / "submitted"
    found = (path for path in submitted.rglob("*") if path.name != "timestamp.txt")
    return {p.relative_to(submitted).as_posix() for p in found if p.is_file()}, caplog.text


def archived(course: Path, name: str, *members: str) -> None:
    """Put a file into what was downloaded, or a zip of members; each holds its own name."""
    path = course / "downloaded/lab-03/archive" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not members:
        path.write_text(name, encoding="utf-8")
        return
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, member)


def test_whose_a_download_is_is_read_as_batch_reads_it(
    course: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archived(course, "ada_scheduler.ipynb")
    archived(course, "bob/scheduler (1).ipynb")
    archived(course, "cleo.zip", "scheduler.ipynb")
    archived(course, "class.zip", "dan/lab-03/scheduler.ipynb", "eve_scheduler.ipynb")
    collected, _ = collect(course, caplog)
    whose = {"ada", "bob", "cleo", "dan", "eve"}
    assert collected == {f"{learner}/lab-03/scheduler.ipynb" for learner in whose}


def test_what_is_left_out_is_told_and_stops_nobody(
    course: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archived(course, "ada/scheduler.ipynb")
    archived(course, "ada/scheduler (1).ipynb")
    archived(course, "ada/scheduler.py")  # would come before a notebook, and is none
    archived(course, "bob_forward_noise.ipynb")
    archived(course, "scheduler.ipynb")
    collected, said = collect(course, caplog)
    assert collected == {"ada/lab-03/scheduler.ipynb"}
    assert (course / "submitted/ada/lab-03/scheduler.ipynb").read_text() == "ada/scheduler.ipynb"
    assert "scheduler (1).ipynb is left out: ada/scheduler.ipynb is taken" in said
    assert "bob_forward_noise.ipynb is left out: it is of lab-01" in said
    assert "neither its name nor a folder says whose it is" in said


def test_an_instructors_own_expression_is_used_in_place_of_it(
    course: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archived(course, "scheduler-of-ada.ipynb")
    own = r".*/(?P<file_id>\w+)-of-(?P<student_id>\w+)"
    assert collect(course, caplog, named_regexp=own)[0] == {"ada/lab-03/scheduler.ipynb"}


@pytest.fixture
def exchange(course: Path, tmp_path: Path) -> Path:
    """nbgrader's exchange, as far as learners write to it."""
    inbound = tmp_path / "exchange" / tmp_path.name / "inbound"
    inbound.mkdir(parents=True)
    return inbound


def collect_from(exchange: Path, course: Path) -> dict[str, str]:
    """Run nbgrader's own collect. The files in submitted/, and what is in them."""
    config: Config = PyFileConfigLoader(CONFIG, path=str(course)).load_config()
    config.CourseDirectory.root = str(course)
    config.CourseDirectory.assignment_id = "lab-03"
    config.CourseDirectory.max_dir_size = 10
    config.Exchange.root = str(exchange.parents[1])
    coursedir = CourseDirectory(config=config)
    authenticator, factory = Authenticator(config=config), ExchangeFactory(config=config)
    with _own_programs():  # a new gradebook is made with another program
        factory.Collect(coursedir=coursedir, authenticator=authenticator, config=config).start()
    found = (path for path in (course / "submitted").rglob("*") if path.is_file())
    return {str(p.relative_to(course / "submitted")): p.read_text(encoding="utf-8") for p in found}


@pytest.mark.skipif(os.name != "posix", reason="nbgrader's exchange is not on Windows")
def test_collect_follows_no_link_and_stops_at_no_pipe(exchange: Path, course: Path) -> None:
    secret = course / "source.ipynb"
    secret.write_text("answers", encoding="utf-8")

    def handed_in(learner: str, at: str = "2026-11-30 10:00:00 UTC") -> Path:
        folder = exchange / f"{learner}+lab-03+{at}"
        (folder / "data").mkdir(parents=True)
        (folder / "data/mine.txt").write_text("mine", encoding="utf-8")
        return folder

    handed_in("ada")
    handed_in("eve", "whenever")
    bob, cleo = handed_in("bob"), handed_in("cleo")
    (bob / "scheduler.ipynb").symlink_to(secret)
    (bob / "all").symlink_to(course)
    os.mkfifo(bob / "pipe")
    (cleo / "large").write_bytes(bytes(20_000))
    (exchange / "dan+lab-03+2026-11-30 10:00:00 UTC").symlink_to(bob)
    collected = collect_from(exchange, course)
    assert collected == {f"{who}/lab-03/data/mine.txt": "mine" for who in ("ada", "bob", "eve")}


def test_no_name_moves_a_grade_to_another_column_or_is_a_formula(tmp_path: Path) -> None:
    def find_submission(assignment: str, student: str) -> Any:
        if student != "ada":
            raise MissingEntry
        return SimpleNamespace(timestamp=None, score=7.0, late_submission_penalty=9.0)

    def learner(name: str, last: str) -> Any:
        return SimpleNamespace(id=name, first_name=None, last_name=last, email=None)

    gradebook: Any = SimpleNamespace(
        assignments=[SimpleNamespace(name="lab-03", duedate=None, max_score=16.0)],
        students=[learner("ada", 'King, "Countess"'), learner("=1+1", "x\ny")],
        find_submission=find_submission,
    )
    exporter = ExportCsv()
    exporter.to = str(tmp_path / "grades.csv")
    exporter.export(gradebook)
    first, second = csv.DictReader((tmp_path / "grades.csv").open(encoding="utf-8", newline=""))
    assert first["last_name"] == 'King, "Countess"'
    assert (first["raw_score"], first["score"], first["max_score"]) == ("7.0", "0.0", "16.0")
    assert (second["student_id"], second["last_name"], second["score"]) == ("'=1+1", "x y", "0.0")
