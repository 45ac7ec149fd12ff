"""What an instructor is told about a submission's text."""

from __future__ import annotations

from pathlib import Path

from infralens.examiner.candidate.notes import notes_on
from infralens.examiner.candidate.submission import Submission


def test_what_the_stub_imports_is_no_note(tmp_path: Path) -> None:
    stub = tmp_path / "stub.py"
    stub.write_text("import inspect\n", encoding="utf-8")
    text = "import inspect\nimport ctypes\n"
    told = [note.line for note in notes_on(Submission(text, "s.py"), (), stub)]
    assert told == [2]
    assert len(notes_on(Submission(text, "s.py"), (), tmp_path / "none.py")) == 2
