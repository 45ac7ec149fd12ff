"""What changed in the library from one release to another."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from click.testing import CliRunner

from infralens.cli import main
from infralens.drift.comparing import Change, Drift, compared, judged
from infralens.drift.page import to_html
from infralens.drift.recording import Recording, kept
from infralens.labs import find_lab, find_labs

ONE = torch.tensor([1.0, math.nan, -2.0])


@pytest.mark.parametrize(
    ("old", "new", "kind", "text"),
    [
        (ONE, ONE.clone(), "equal to the bit", ""),
        (ONE, ONE * (1 + 2**-22), "within rounding", ""),
        (ONE[::2], -ONE[::2], "different", "off by up to 4, of values up to 2"),
        (ONE, ONE.double(), "different", "float32 (3,) → float64 (3,)"),
        (ONE, ONE[:2], "different", "float32 (3,) → float32 (2,)"),
        (ONE, ONE.nan_to_num(), "different", "other numbers are not finite"),
        (ONE > 0, ONE < 0, "different", "off by up to 1, of values up to 1"),
        (torch.zeros(2), -torch.zeros(2), "within rounding", ""),
        (torch.tensor(3), torch.tensor(3), "equal to the bit", ""),
        (math.nan, math.nan, "equal to the bit", ""),
        (1, True, "different", "1 → True"),
        ([1, {"a": "x"}], [1, {"a": "y"}], "different", "[1]['a']: 'x' → 'y'"),
        ([1.0, 2.0], [1.0 + 2**-30, 3.0], "different", "[1]: 2.0 → 3.0"),
        ("a" * 99 + "b", "a" * 99 + "c", "different", f"'…{'a' * 12}b' → '…{'a' * 12}c'"),
        ([1], [1, 2], "different", "[1] → [1, 2]"),
        (None, ONE, "different", "None → float32 (3,)"),
    ],
)
def test_two_values_are_of_a_kind(old: Any, new: Any, kind: str, text: str) -> None:
    assert judged(kept(old), kept(new)) == (kind, text)


def recording(failed: dict[str, str] | None = None, **heard: Any) -> Recording:
    places = {(case, 0, index): value for case, of in heard.items() for index, value in of.items()}
    return Recording("0.1", places, failed or {})


def test_what_is_not_reached_has_not_vanished() -> None:
    """A case that ends early in one release says nothing of its later comparisons."""
    old = recording(a={1: 1.0, 2: 2.0}, b={1: 5, 2: 6}, c={1: "x"}, e={1: 0})
    new = recording({"a": "wrong", "d": "no such name"}, a={1: 7.0}, b={1: 5}, c={1: "x", 2: "y"})
    found = compared(old, new)
    told = [(change.kind, change.case, change.comparison) for change in found.changes]
    assert told == [
        ("different", "a", 1),
        ("vanished", "b", 2),
        ("appeared", "c", 2),
        ("vanished", "e", 1),
        ("raised", "d", None),
    ]
    assert found.counts["equal to the bit"] == 2
    assert sum(found.counts.values()) == 7


def test_what_neither_release_ran_is_not_alike() -> None:
    (change,) = compared(*[recording({"the suite": "it ends at once"}) for _ in range(2)]).changes
    assert (change.kind, change.text) == ("raised", "in both, so not compared: it ends at once")


CHANGES = {  # a file of schedulers: what stands there once, and what is planted for it
    "scheduling_ddpm.py": (
        "sqrt_alpha_prod * original_samples + sqrt_one_minus",
        "sqrt_alpha_prod * original_samples - sqrt_one_minus",
    ),
    "scheduling_ddim.py": ("clip_sample: bool = True", "clip_sample: bool = False"),
}


def planted(folder: Path) -> Path:
    """A folder with the installed diffusers, of which some schedulers have another line."""
    installed, copy = Path(diffusers.__file__).parent, folder / "diffusers"
    for inside in (copy, copy / "schedulers"):
        inside.mkdir()
        for path in (installed / inside.relative_to(copy)).iterdir():
            if path.name not in ("schedulers", "__pycache__", *CHANGES):
                (inside / path.name).symlink_to(path)
    for name, (right, wrong) in CHANGES.items():
        text = (installed / "schedulers" / name).read_text(encoding="utf-8")
        assert text.count(right) == 1
        (copy / "schedulers" / name).write_text(text.replace(right, wrong), "utf-8")
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_sign_and_a_default_of_two_schedulers_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign wherever noise is added; a default in one line, where it is asked for."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")  # no suite ran, so nothing had changed
    release = str(planted(tmp_path))
    words = ["drift", sys.executable, release, "--lab", "lab-01", "--lab", "lab-02"]
    result = CliRunner().invoke(main, [*words, "--format", "json"])
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)["labs"]
    sign = told["diffusers/lab-01"]
    assert {change["kind"] for change in sign["changes"]} == {"different"}
    assert all("noise" in change["case"] for change in sign["changes"])
    assert sign["counts"]["equal to the bit"] > 10
    (default,) = told["diffusers/lab-02"]["changes"]
    assert default["case"] == "quiz.py::question 3"
    assert (default["kind"], default["text"]) == ("different", "1.0 → 3.200000047683716")


def test_the_page_has_every_count_and_every_change_and_asks_for_nothing() -> None:
    lab = find_lab("lab-02", find_labs())
    change = Change("different", "test_x.py::test_of[<b>]", 2, "1 → 2")
    page = to_html({lab: Drift({"different": 37}, (change,))}, ["0.1", "0.2"], 5)
    assert "<h1>diffusers 0.1 → 0.2</h1>" in page
    assert "seed 5" in page
    assert '<td class="number">37</td>' in page
    assert "<td><code>test_of[&lt;b&gt;], comparison 2</code></td>" in page
    assert f"read {lab.reading}" in page
    assert not re.search(r"<script|<link|src=|href=|url\(|@import", page)
    assert "Nothing changed" in to_html({lab: Drift({"equal to the bit": 1})}, ["1", "2"], 5)


def test_a_place_without_a_release_is_one_sentence(tmp_path: Path) -> None:
    for place, sentence in ((tmp_path, "holds no diffusers"), (tmp_path / "f", "can be started")):
        (tmp_path / "f").write_text("", encoding="utf-8")
        result = CliRunner().invoke(main, ["drift", sys.executable, str(place), "--lab", "lab-01"])
        assert result.exit_code == 2
        assert sentence in result.output
