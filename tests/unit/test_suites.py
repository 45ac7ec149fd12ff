"""A warm examiner keeps the suites that it has imported, until a file of one is edited."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from infralens.examiner.run.suites import ImportedSuites

NAME = "lab_91_edited"
CHECKS = f"from {NAME} import tiny\nVALUE = tiny.VALUE\n"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A suite with a helper, importable; what was imported of it goes afterwards."""
    folder = tmp_path / NAME
    folder.mkdir()
    for name, text in (("__init__", ""), ("tiny", "VALUE = 1\n"), ("test_edited", CHECKS)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [known for known in sys.modules if known.split(".")[0] in (NAME, "shared_91")]:
        del sys.modules[name]


def imported() -> ModuleType:
    return importlib.import_module(f"{NAME}.test_edited")


def test_an_edited_helper_has_its_suite_imported_again(suite: Path) -> None:
    suites = ImportedSuites()
    suites.refresh(suite)
    first = imported()
    suites.refresh(suite)
    assert imported() is first
    (suite / "tiny.py").write_text("VALUE = 2\n", encoding="utf-8")  # of the same size
    suites.refresh(suite)
    assert imported().VALUE == 2


def test_a_helper_that_suites_share_is_noticed_too(suite: Path) -> None:
    shared = suite.parent / "shared_91.py"
    shared.write_text("VALUE = 1\n", encoding="utf-8")
    (suite / "tiny.py").write_text("from shared_91 import VALUE\n", encoding="utf-8")
    suites = ImportedSuites()
    suites.refresh(suite)
    assert imported().VALUE == 1
    shared.write_text("VALUE = 2\n", encoding="utf-8")
    suites.refresh(suite)
    assert imported().VALUE == 2


def test_a_helper_that_is_gone_is_forgotten(suite: Path) -> None:
    suites = ImportedSuites()
    suites.refresh(suite)
    imported()
    (suite / "tiny.py").unlink()
    suites.refresh(suite)
    with pytest.raises(ImportError):
        imported()


def test_another_suite_of_that_name_is_forgotten(suite: Path, tmp_path: Path) -> None:
    suites = ImportedSuites()
    suites.refresh(suite)
    imported()
    other = tmp_path / "elsewhere" / NAME
    other.mkdir(parents=True)
    (other / "test_edited.py").write_text("", encoding="utf-8")
    suites.refresh(other)
    assert not [name for name in sys.modules if name.split(".")[0] == NAME]


def test_a_warm_examiner_notices_that_the_helper_of_a_suite_was_edited(workshop: Any) -> None:
    text = """
    from . import tiny

    @todo("90.1")
    def test_one(candidate):
        assert_equals(candidate.one(), value=tiny.VALUE)
    """
    lab = workshop.lab(text)
    for name, written in (("__init__.py", ""), ("tiny.py", "VALUE = 1\n")):
        (lab.suite / name).write_text(written, encoding="utf-8")
    assert workshop.grade(lab, "def one(): return 1\n").passed
    (lab.suite / "tiny.py").write_text("VALUE = 2\n", encoding="utf-8")
    assert not workshop.grade(lab, "def one(): return 1\n").passed
