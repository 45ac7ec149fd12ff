"""`infralens try`: the learner's lab 06 and the library draw the same words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image

from infralens.cli import main
from infralens.labs import find_lab, find_labs
from infralens.trying import Tried
from infralens.workspace import Workspace

LAB = find_lab("lab-06", find_labs())
PROMPT = "a large red circle on black background"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lab 06 in a new workspace, which is the working directory."""
    assert CliRunner().invoke(main, ["init", str(tmp_path / "w")]).exit_code == 0
    monkeypatch.chdir(tmp_path / "w")
    return Workspace(tmp_path / "w").file(LAB)


def solution() -> str:
    assert LAB.solution is not None
    return LAB.solution.read_text(encoding="utf-8")


def tried(*words: str) -> Result:
    runner = CliRunner(catch_exceptions=False)
    return runner.invoke(main, ["try", PROMPT, "--steps", "6", "--seed", "3", *words])


AS_ARRAY = """
_drawn = generate
def generate(*args):
    return _drawn(*args).numpy()
"""


@pytest.mark.parametrize("ending", ["", AS_ARRAY], ids=["tensor", "array"])
def test_the_solution_draws_what_the_library_draws(file: Path, ending: str) -> None:
    file.write_text(solution() + ending, encoding="utf-8")
    result = tried("--negative-prompt", "small")
    assert result.exit_code == 0, result.output
    assert "draws the same" in result.stdout
    assert Path("mine.png").read_bytes() == Path("mine-library.png").read_bytes()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("uncond + scale * (cond - uncond)", "cond"),
        ("seen = scheduler.scale_model_input(seen, t)", "pass"),
        ("latents, **extra)", "latents)"),
        (" * 255).round()", " * 255)"),
    ],
    ids=["no guidance", "not scaled", "no generator", "cut off"],
)
def test_a_mistake_is_seen_beside_the_library_s_picture(file: Path, right: str, wrong: str) -> None:
    assert right in solution()
    file.write_text(solution().replace(right, wrong), encoding="utf-8")
    result = tried()
    assert result.exit_code == 1
    assert "of 1024 pixels are not" in result.stdout
    assert Path("mine.png").read_bytes() != Path("mine-library.png").read_bytes()


def test_the_scheduler_that_is_lent_has_no_timesteps_set(file: Path) -> None:
    """With the library's own, already set, code that never sets them would draw the same."""
    file.write_text(
        "def generate(components, *rest):\n"
        "    threads = __import__('torch').get_num_threads()\n"
        "    raise ValueError(components['scheduler'].num_inference_steps, threads)\n",
        encoding="utf-8",
    )
    torch.set_num_threads(2)
    result = tried()
    torch.set_num_threads(1)  # as all tests have it
    assert result.exit_code == 1
    assert "ValueError on line 3: (None, 1)" in result.stderr  # several threads wait for each other


def test_a_stub_is_told_before_torch_is_imported(file: Path) -> None:
    program = (
        "import sys; from infralens.cli import main\n"
        "try: main(['try', 'a star'])\n"
        "except SystemExit as left: print(left.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("1 False\n", 0)
    assert "6.5 (generate) is not started." in done.stderr


ON_META = b"""import torch
def generate(*args):
    return torch.zeros(1, 32, 32, 3, dtype=torch.uint8, device='meta')
"""
ODD = b"""class Odd:
    @property
    def __class__(self):
        raise ValueError("odd")
def generate(*args):
    return Odd()
"""


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (LAB.stub.read_bytes(), "6.5 (generate) is not started."),
        (b"def generate(*args):\n    return 1 / 0\n", "raised ZeroDivisionError on line 2"),
        (b"import os\nos._exit(7)\n", "your code ended its process with exit code 7."),
        (b"import os\ndef generate(*args):\n    os.abort()\n", "your code ended its process."),
        (b"def generate(*args):\n    assert 0\n", "raised AssertionError on line 2\n"),
        (b"def generate(*args):\n    exit('\x1b[31m')\n", "SystemExit on line 2: \\x1b[31m"),
        (b"def generate(\n", "syntax error on line 1"),
        (b"x = '\xe9'\n", "not UTF-8 text"),
        (b"x = 1\0\n", "null bytes"),
        (b"def generate(components, prompt): pass\n", "does not take the lab's parameters"),
        (b"def generat(*args): pass\n", "has `generat` on line 1"),
        (b"def generate(*args): pass\n", "returned None;"),
        (b"generate = 3\n", "Your `generate` is not a function."),
        (
            b"def generate(*args):\n    raise BaseException('boom')\n",
            "BaseException on line 2: boom",
        ),
        (b"def __getattr__(name):\n    raise ValueError(name)\n", "ValueError on line 2: generate"),
        (ON_META, "a uint8 tensor of shape (1, 32, 32, 3);"),
        (ON_META.replace(b"device='meta')", b"device='cpu').to_sparse()"), "a uint8 tensor of"),
        (ODD, "ValueError on line 4: odd"),
        (
            b"import torch\ngenerate = lambda *a: torch.ones(3).bfloat16()",
            "a bfloat16 tensor of shape (3,);",
        ),
        (
            b"import torch\ngenerate = lambda *a: torch.ones(1, 32, 32, 3, requires_grad=True)",
            "a float32 tensor of shape (1, 32, 32, 3);",
        ),
    ],
)
def test_code_that_draws_nothing_is_a_sentence(file: Path, data: bytes, says: str) -> None:
    file.write_bytes(data)
    result = tried()
    assert result.exit_code == 1
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert not Path("mine.png").exists()


def test_no_file_and_no_workspace_are_wrong_usage(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    result = tried()
    assert result.exit_code == 2
    assert "There is no file" in result.stderr
    monkeypatch.chdir(tmp_path)
    result = tried()
    assert result.exit_code == 2
    assert "infralens init" in result.stderr


def test_a_file_outside_a_workspace_may_be_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(solution(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert tried("--file", str(file)).exit_code == 0


@pytest.mark.parametrize("ends", [KeyboardInterrupt(), SystemExit(143)], ids=repr)
def test_ctrl_c_and_sigterm_are_nobodys_mistake(
    file: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException
) -> None:
    def end(*_: object) -> None:
        raise ends

    monkeypatch.setattr("infralens.trying.binding_error", end)
    file.write_text(solution(), encoding="utf-8")
    result = tried()
    assert result.exit_code == (143 if isinstance(ends, SystemExit) else 1)
    assert "your code" not in result.stderr


def test_only_a_few_values_may_be_off_by_rounding() -> None:
    library = Image.new("RGB", (32, 32), (9, 9, 9))
    few, all_, one_far = library.copy(), Image.new("RGB", (32, 32), (10, 9, 9)), library.copy()
    few.putpixel((0, 0), (10, 9, 9))
    one_far.putpixel((0, 0), (11, 9, 9))
    assert [Tried(p, library).wrong_pixels for p in (few, all_, one_far)] == [0, 1024, 1]
