"""`infralens generate`: a picture from words, as a newcomer first meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from infralens import shapes
from infralens.cli import main
from infralens.labs import find_lab, find_labs
from infralens.workspace import Workspace

LAB = find_lab("lab-06", find_labs())
PROMPT = "a large red circle on black background"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["generate", *words])


def test_a_picture_of_the_prompt_is_written(tmp_path: Path) -> None:
    out = tmp_path / "new" / "star.png"
    result = run(PROMPT, "--out", str(out), "--seed", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{out}: 256 x 256 pixels\n"
    assert result.stderr == ""
    with Image.open(out) as picture:
        assert picture.size == (256, 256)
        red, green, blue = picture.convert("RGB").getpixel((128, 128))
        assert red > 150
        assert max(green, blue) < 110
        assert max(picture.convert("RGB").getpixel((4, 4))) < 60


def test_a_seed_gives_the_same_picture_again_and_another_another(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.png" for name in ("one", "two", "three")]
    for path, seed in zip(files, ("1", "1", "2"), strict=True):
        assert run(PROMPT, "--out", str(path), "--seed", seed, "--steps", "4").exit_code == 0
    one, two, three = (path.read_bytes() for path in files)
    assert one == two != three


def test_words_that_were_never_shown_are_named_once(tmp_path: Path) -> None:
    out = tmp_path / "dog.png"
    result = run("a mauve dog, a MAUVE dog", "--out", str(out), "--steps", "1")
    assert result.exit_code == 0
    assert "was never shown 'mauve' or 'dog'. It knows the sizes small and large" in result.stderr
    assert out.is_file()


def test_all_that_it_knows_is_known() -> None:
    assert shapes.unknown_words(PROMPT) == []
    assert shapes.unknown_words("Two red squares!") == ["two", "squares"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--out", "star.jpg"], "star.jpg does not end in .png"),
        (["--steps", "0"], "0 is not in the range"),
        (["--enlarge", "1000"], "1000 is not in the range"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_loaded(words: list[str], says: str) -> None:
    result = run(PROMPT, *words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "star.png"
    result = run(PROMPT, "--out", str(out), "--steps", "1")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert "Traceback" not in result.output


@pytest.fixture
def solution() -> str:
    assert LAB.solution is not None
    return LAB.solution.read_text(encoding="utf-8")


def mine(lab_06: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """`generate --mine` in a workspace whose lab 06 has this text."""
    assert CliRunner().invoke(main, ["init", str(tmp_path / "w")]).exit_code == 0
    monkeypatch.chdir(tmp_path / "w")
    Workspace(tmp_path / "w").file(LAB).write_text(lab_06, encoding="utf-8")
    return run(PROMPT, "--mine", "--steps", "6", "--seed", "3")


def test_the_solution_of_lab_06_draws_what_the_library_draws(
    solution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = mine(solution, tmp_path, monkeypatch)
    assert result.exit_code == 0, result.output
    assert "draws the same" in result.stdout
    by_mine = Path("picture.png").read_bytes()
    assert run(PROMPT, "--steps", "6", "--seed", "3").exit_code == 0
    assert Path("picture.png").read_bytes() == by_mine


def test_a_wrong_picture_is_written_beside_the_library_s(
    solution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = "uncond + scale * (cond - uncond)"
    result = mine(solution.replace(right, "cond"), tmp_path, monkeypatch)
    assert result.exit_code == 1
    assert "pixels differ" in result.stdout
    assert Path("picture.png").read_bytes() != Path("picture-library.png").read_bytes()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LAB.stub.read_text(encoding="utf-8"), "6.5 (generate) is not started."),
        ("def generate(*args):\n    return 1 / 0\n", "raised ZeroDivisionError in line 2"),
        ("def generate(*args):\n    exit('\x1b[31m')\n", "raised SystemExit in line 2: \\x1b[31m"),
        ("def generate(\n", "raised SyntaxError in line 1"),
        ("def generate(*args):\n    return None\n", "returned a NoneType"),
        ("import torch\ngenerate = lambda *args: torch.ones(3)\n", "returned (3,) float32"),
        ("", "There is no `generate`"),
    ],
)
def test_code_that_draws_nothing_is_a_sentence(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = mine(text, tmp_path, monkeypatch)
    assert result.exit_code == 1
    assert says in result.stderr
    assert "Traceback" not in result.output
    assert not Path("picture.png").exists()


def test_mine_without_a_workspace_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(PROMPT, "--mine")
    assert result.exit_code == 2
    assert "infralens init" in result.stderr
