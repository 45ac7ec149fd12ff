"""A wheel, installed in an empty environment away from the checkout, grades; it holds no answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from infralens.labs import find_labs
from infralens.stubs import answer_lines

ROOT = Path(__file__).resolve().parents[2]
LONG_ENOUGH = 25  # shorter lines (`return total`) say nothing
SAYS_LITTLE = r'.*:|"\w+",?|\w+=\w+,'  # `for t in timesteps:`, a listed name, a passed argument


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--wheel-dir",
        str(out),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("infralens_labs-*.whl"))


def test_the_wheel_holds_stubs_and_pages_but_no_answer(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        texts = {
            name: archive.read(name).decode("utf-8", "replace")
            for name in names
            if name.endswith((".py", ".md", ".yaml", ".txt", ".json"))
        }
    for lab in find_labs():
        assert f"infralens/exercises/{lab.track}/{lab.folder}/{lab.file}" in names
        assert lab.solution is not None
        for line in answer_lines(lab.solution.read_text(encoding="utf-8")):
            holders = [
                name for name, text in texts.items() if line in map(str.strip, text.splitlines())
            ]
            says_little = len(line) < LONG_ENOUGH or re.fullmatch(SAYS_LITTLE, line)
            assert says_little or holders == [], line
    assert not [name for name in names if "solutions" in name]


def test_an_installed_wheel_grades_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    # The dependencies are this environment's; the package itself comes from the wheel alone.
    venv.create(tmp_path / "env", with_pip=False)
    bin_name = "Scripts" if os.name == "nt" else "bin"
    python = tmp_path / "env" / bin_name / "python"
    site = next((tmp_path / "env").rglob("site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")

    def infralens(*arguments: str, where: Path) -> subprocess.CompletedProcess[str]:
        program = "import sys; from infralens.cli import main; sys.argv[0] = 'infralens'; main()"
        return subprocess.run(
            [str(python), "-P", "-c", program, *arguments],
            cwd=where,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": ""},
            check=False,
        )

    assert infralens("init", "w", where=tmp_path).returncode == 0
    graded = infralens("grade", "lab-03", where=tmp_path / "w")
    assert graded.returncode == 1, graded.stderr
    assert "0 of 16 points" in graded.stdout
    assert "not started" in graded.stdout
