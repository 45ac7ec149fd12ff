"""`infralens show`: what a learner's functions do, as a picture."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image, ImageColor

from infralens.candidate.loading import load
from infralens.cli import main
from infralens.examiner.candidate.in_process import RehearsedCandidate
from infralens.examiner.run.trial import Trial, running
from infralens.labs import Lab, find_lab, find_labs
from infralens.show.pictures import DRAWN, lab_03, lab_04, lab_06
from infralens.show.pictures.answers import NotDrawnError, number, pixels, tensor
from infralens.show.pictures.look import LIBRARY, MINE, as_png
from infralens.wrong import wrong_answers

LABS = find_labs()
SCHEDULER = find_lab("lab-03", LABS)
FEW = 6  # steps
UNDRAWN = Path(__file__).parents[1] / "attacks" / "lab"
"""A folder with a lab of its own, for which no picture is drawn."""


def solved(lab: Lab, right: str = "", wrong: str = "") -> ModuleType:
    """The lab's solution, here; with one line of it written otherwise."""
    assert lab.solution is not None
    text = lab.solution.read_text(encoding="utf-8")
    assert right in text
    return load(text.replace(right, wrong) if right else text, lab.solution.name)


def end_of_a_run(mine: Any) -> torch.Tensor:
    network = lab_03.network_of(50)
    noise = torch.randn((1, 3, 32, 32), generator=torch.Generator().manual_seed(4))
    return lab_03.run_of(mine, FEW, noise, network).samples[-1]


def test_the_solution_draws_the_library_s_picture() -> None:
    mine = end_of_a_run(lab_03.theirs(solved(SCHEDULER), FEW))
    library = end_of_a_run(lab_03.library(FEW))
    torch.testing.assert_close(mine, library, atol=1e-4, rtol=0)
    assert library.std() > 0.2  # it is a picture


MISTAKES = [
    ("return sample / math.sqrt(sigma**2 + 1)", "return sample"),
    ("return sample / math.sqrt(sigma**2 + 1)", "return sample / sigma"),
    ("derivative * (sigma_next - sigma)", "derivative * (sigma - sigma_next)"),
    ("x0 = x - sigma * output", "x0 = x - output"),
]


@pytest.mark.parametrize(("right", "wrong"), MISTAKES)
def test_a_wrong_scheduler_makes_a_visibly_wrong_picture(right: str, wrong: str) -> None:
    mine = end_of_a_run(lab_03.theirs(solved(SCHEDULER, right, wrong), FEW))
    library = end_of_a_run(lab_03.library(FEW))
    gap = (mine.clamp(-1, 1) - library.clamp(-1, 1)).square().mean().sqrt()
    assert gap > 0.1  # a tenth of the way from grey to white, all over


SEEN = {
    "diffusers/lab-01": "variances-as-factors",
    "diffusers/lab-02": "guess-not-divided",
    "diffusers/lab-03": "sigma-not-root",
    "diffusers/lab-04": "never-guided",
    "diffusers/lab-05": "unscaled-after-decoding",
    "diffusers/lab-06": "negative-and-prompt-swapped",
    "diffusers/lab-07": "not-scaled",
    "diffusers/lab-08": "alpha-not-divided",
    "diffusers/lab-09": "window-counted-from-the-end",
    "diffusers/lab-10": "tiles-not-blended",
    "diffsynth/lab-01": "frames-not-compressed",
    "diffsynth/lab-02": "whole-then-cut",
    "diffsynth/lab-03": "frames-divided",
    "diffsynth/lab-04": "step-from-scaled-latents",
    "diffsynth/lab-05": "tiled",
    "diffsynth/lab-06": "width-major",
    "diffsynth/lab-07": "no-cache",
    "diffsynth/lab-08": "never-goes",
    "diffsynth/lab-09": "windows-ignored",
    "diffsynth/lab-10": "bytes-added-up",
}
"""A misconception of each lab that has a picture."""


STEPS_HERE = {"diffusers/lab-06": 2, "diffusers/lab-08": 2, "diffusers/lab-09": 4}
"""Of the networks' runs in a test: enough for a difference, not for a good picture."""


@pytest.mark.parametrize("name", DRAWN)
def test_a_lab_s_picture_is_drawn_and_a_misconception_changes_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = find_lab(name, LABS)
    drawing = importlib.import_module(f"infralens.show.pictures.{DRAWN[name]}")
    if name in STEPS_HERE:
        monkeypatch.setattr(drawing, "STEPS", STEPS_HERE[name])
    mistake = next(wrong for wrong in wrong_answers(lab) if wrong.name == SEEN[name])
    assert lab.solution is not None
    right = lab.solution.read_text(encoding="utf-8")
    shown = []
    for text in (right, mistake.edited(right)):
        mine = RehearsedCandidate(vars(load(text, lab.solution.name)))
        with running(Trial()), torch.no_grad():
            png = as_png(drawing.draw(mine, 1))
        assert len(png) < 100_000
        with Image.open(io.BytesIO(png)) as image:
            colours = {rgb for _, rgb in image.convert("RGB").getcolors() or []}
            assert {ImageColor.getrgb(colour) for colour in (MINE, LIBRARY)} <= colours
            shown.append(np.asarray(image.convert("L"), dtype=float))
    assert shown[0].shape[1] > 600
    assert shown[0].min() < 60  # not blank
    assert np.abs(shown[0] - shown[1]).mean() > 0.5  # of 255: some of its squares look otherwise


def handed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], tuple[int, ...]]:
    """What lab 06's solution, or a wrong answer of it, hands from component to component."""
    lab = find_lab("lab-06", LABS)
    assert lab.solution is not None
    text = lab.solution.read_text(encoding="utf-8")
    if wrong:
        text = next(each for each in wrong_answers(lab) if each.name == wrong).edited(text)
    monkeypatch.setattr(lab_06, "STEPS", 1)
    monkeypatch.setattr(lab_06, "SWAPPED", ())
    mine = RehearsedCandidate(vars(load(text, lab.solution.name)))
    with running(Trial()), torch.no_grad():
        return lab_06.yours(mine, 1, {"tokenizer", "scheduler", "unet"}).handed


def test_the_graph_of_components_says_what_was_handed_to_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = handed("", monkeypatch)
    assert right == lab_06.library(1).handed
    assert right["text_encoder", "unet"] == (2, 24, 64)
    assert ("generator", "unet") not in right
    past = handed("network-input-not-scaled", monkeypatch)  # noise goes past the scheduler
    assert past["generator", "unet"] == (2, 4, 8, 8)
    assert handed("never-guided", monkeypatch)["text_encoder", "unet"] == (1, 24, 64)


@pytest.mark.parametrize(
    "told",
    [None, {}, {"calls": [], "handed": [[]]}, {"handed": {"unet vae": None, "x y": [1], 3: [1]}}],
)
def test_of_a_graph_only_what_has_a_place_is_drawn(told: Any) -> None:
    calls, handed = lab_06.noted(told)
    assert (set(calls.values()), handed) == ({0}, {})
    assert lab_06.noted({"handed": {"unet vae": [1, 2]}})[1] == {("unet", "vae"): (1, 2)}
    with pytest.raises(NotDrawnError):
        lab_06.noted({"calls": {"unet": "often"}})


HOSTILE = [
    None,
    [0.0] * 6,
    torch.zeros(2, 2),
    torch.tensor([1.0, float("nan")]),
    torch.tensor([1.0, float("inf")]),
    torch.zeros(2, dtype=torch.complex64),
    torch.zeros(2, dtype=torch.bool),
    torch.zeros(2, device="meta"),
    SimpleNamespace(shape=(2,)),
]


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda value: type(value).__name__)
def test_only_a_finite_tensor_of_the_right_shape_is_drawn(answer: Any) -> None:
    with pytest.raises(NotDrawnError, match=r"`Euler\.step` gave .+\."):
        tensor(answer, (2,), "Euler.step")
    assert tensor(torch.ones(2).half(), (2,), "Euler.step").dtype == torch.float64


@pytest.mark.parametrize("answer", [*HOSTILE, np.zeros(2), np.zeros((2, 2), np.uint8)])
def test_only_bytes_of_the_right_shape_are_drawn_as_pixels(answer: Any) -> None:
    with pytest.raises(NotDrawnError, match=r"`to_image` gave .+\."):
        pixels(answer, (2,), "to_image")
    for right in (torch.full((2,), 255, dtype=torch.uint8), np.full((2,), 255, np.uint8)):
        assert pixels(right, (2,), "to_image").tolist() == [255, 255]


@pytest.mark.parametrize("answer", [None, True, "1", float("nan"), 10**400, torch.ones(2)])
def test_only_a_finite_number_is_drawn_with(answer: Any) -> None:
    with pytest.raises(NotDrawnError, match=r"`Euler\.init_noise_sigma` .+\."):
        number(answer, "Euler.init_noise_sigma")
    assert number(torch.tensor([14.5]), "σ") == 14.5


def test_a_network_that_is_lent_takes_only_what_it_can_compute_with() -> None:
    pictures = lab_04.captioned_pictures(5)
    network = lab_04.network_of(pictures)
    x, embeds = torch.zeros(2, 3, 32, 32), torch.ones(2, 1, 5)
    assert network(x, 999, embeds).shape == x.shape
    for wrong in (
        (x[0], 1, embeds),
        (torch.zeros(3, 3, 32, 32), 1, embeds),
        (x.repeat(40, 1, 1, 1), 1, embeds.repeat(40, 1, 1)),
        (x, 1, -embeds),
        (x, 1, embeds * float("nan")),
        (None, 1, embeds),
    ):
        with pytest.raises(NotDrawnError):
            network(*wrong)


def shown(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "infralens", "show", "lab-03", "--file", str(file), *words]
    kitty = {**os.environ, "TERM": "xterm-kitty"}  # whose pictures are not for a pipe
    return subprocess.run(
        program, capture_output=True, text=True, cwd=file.parent, timeout=300, env=kitty
    )


def test_the_picture_is_drawn_in_a_candidate_and_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    assert SCHEDULER.solution is not None
    file.write_bytes(SCHEDULER.solution.read_bytes())
    done = shown(file, "--out", "drawn.png", "--seed", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == "drawn.png: what mine.py draws, beside diffusers\n"
        or "\x1b" not in done.stdout
    )
    with Image.open(tmp_path / "drawn.png") as image:
        image.load()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drawn.png", "mine.py"]


def test_code_that_raises_is_told_in_a_sentence_that_names_the_function(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    assert SCHEDULER.solution is not None
    text = SCHEDULER.solution.read_text(encoding="utf-8")
    right = "return sample / math.sqrt(sigma**2 + 1)"
    file.write_text(text.replace(right, "raise KeyError('\x1b[31m')"), encoding="utf-8")
    done = shown(file)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Nothing is drawn: In `Euler.scale_model_input`: your code raised"
    )
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "lab-03.png").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["attacks/lab-01"], "lab-01 has no picture yet"),
        (["lab-03", "--out", "a.gif"], "does not end in .png"),
        (["lab-03", "--out", "link.png", "--file", "there.py"], "is no regular file"),
        (["lab-03", "--file", "none.py"], "There is no file none.py"),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.py").write_text("", encoding="utf-8")
    Path("link.png").symlink_to("elsewhere.png")
    if "--file" not in words:
        words = [*words, "--file", "there.py"]
    result = CliRunner().invoke(main, ["--labs", str(UNDRAWN), "show", *words])
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_untouched_stub_is_told_so(tmp_path: Path) -> None:
    out = str(tmp_path / "a.png")
    result = CliRunner().invoke(
        main, ["show", "lab-03", "--file", str(SCHEDULER.stub), "--out", out]
    )
    assert result.exit_code == 1
    assert result.stderr.startswith("Nothing is drawn: no function in ")
    assert not Path(out).exists()
