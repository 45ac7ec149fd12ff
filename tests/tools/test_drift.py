"""What changed in the library from one release to another."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from click.testing import CliRunner

from infralens.cli import main
from infralens.drift.comparing import compared, judged
from infralens.drift.recording import Recording, kept

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


def planted(folder: Path) -> Path:
    """A folder with the installed diffusers, of which add_noise has another sign."""
    installed, copy = Path(diffusers.__file__).parent, folder / "diffusers"
    name = "scheduling_ddpm.py"
    for inside in (copy, copy / "schedulers"):
        inside.mkdir()
        for path in (installed / inside.relative_to(copy)).iterdir():
            if path.name not in ("schedulers", "__pycache__", name):
                (inside / path.name).symlink_to(path)
    text = (installed / "schedulers" / name).read_text(encoding="utf-8")
    right = "sqrt_alpha_prod * original_samples + sqrt_one_minus"
    assert text.count(right) == 1
    (copy / "schedulers" / name).write_text(text.replace(right, right.replace("+", "-")), "utf-8")
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_sign_in_one_scheduler_is_found(tmp_path: Path) -> None:
    words = ["drift", sys.executable, str(planted(tmp_path)), "--lab", "lab-01", "--format", "json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)["labs"]["diffusers/lab-01"]
    assert {change["kind"] for change in told["changes"]} == {"different"}
    assert all("noise" in change["case"] for change in told["changes"])
    assert told["counts"]["equal to the bit"] > 10


def test_a_place_without_a_release_is_one_sentence(tmp_path: Path) -> None:
    for place, sentence in ((tmp_path, "holds no diffusers"), (tmp_path / "f", "can be started")):
        (tmp_path / "f").write_text("", encoding="utf-8")
        result = CliRunner().invoke(main, ["drift", sys.executable, str(place), "--lab", "lab-01"])
        assert result.exit_code == 2
        assert sentence in result.output
