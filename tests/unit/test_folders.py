"""Folders of those who were killed are removed by the next; others are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infralens.examiner.isolation import folders

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX locks")

MAKER = """
import os, signal
from infralens.examiner.isolation.folders import HeldFolder
print(HeldFolder().path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_only_what_nobody_holds_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    killed = subprocess.run(
        [sys.executable, "-c", MAKER],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    left, alive = Path(killed.stdout.strip()), folders.HeldFolder()
    strange = tmp_path / "infralens-of-somebody"
    strange.mkdir()
    (tmp_path / "infralens-link").symlink_to(strange)
    folders.sweep()
    assert left.is_dir()  # so young that it may be in the making
    folders.sweep(young_seconds=-1.0)
    assert not left.exists()
    assert strange.is_dir()
    assert alive.path.is_dir()
    alive.remove()
    assert not alive.path.exists()
