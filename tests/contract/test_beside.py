"""What `beside.py` asks of pip and takes for a fault; and what it is asked for weekly."""

from __future__ import annotations

import tomllib

import pytest
import yaml
from beside import ROOT, changed, pins, wanted  # a module beside this one
from packaging.requirements import Requirement
from packaging.version import Version

TESTED = "# The set.\ndiffusers==0.42.1\ntorch==2.13.0\ntorchvision==0.28.0\n"


@pytest.mark.parametrize(
    ("given", "holds", "constraints"),
    [
        (
            ["diffusers==0.36.0"],
            ["diffusers==0.36.0", "torch", "transformers", "accelerate"],
            "torch==2.13.0",
        ),
        (["torch==2.6.0"], ["torch==2.6.0", "diffusers", "transformers", "accelerate"], ""),
    ],
)
def test_only_torch_is_pinned_and_only_where_none_is_given(
    given: list[str], holds: list[str], constraints: str
) -> None:
    assert wanted(given) == holds
    assert pins(given, TESTED) == constraints


def test_what_was_replaced_or_taken_away_is_told_and_what_came_is_not() -> None:
    before = {"diffusers": "0.36.0", "numpy": "2.4.6", "torch": "2.13.0+cpu"}
    after = {"diffusers": "0.42.1", "torch": "2.13.0+cpu", "peft": "0.21.2"}
    assert changed(before, before | {"peft": "0.21.2"}) == []
    assert changed(before, after) == [
        "diffusers 0.36.0 was replaced by 0.42.1",
        "numpy 2.4.6 was replaced by nothing",
    ]


def test_every_release_that_is_taken_is_tried_weekly() -> None:
    """A minor release of the range in pyproject.toml is in the workflow or is the tested one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    taken = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    workflow = (ROOT / ".github/workflows/releases.yml").read_text(encoding="utf-8")
    matrix = yaml.safe_load(workflow)["jobs"]["beside"]["strategy"]["matrix"]
    has = [*matrix["has"], *(one["has"] for one in matrix["include"])]
    pinned = [
        (one.name, str(pin.version)) for one in map(Requirement, has) for pin in one.specifier
    ]
    assert [one for one in pinned if not taken[one[0]].contains(one[1])] == []
    tried = {Version(release).release[:2] for name, release in pinned if name == "diffusers"}
    takes = taken["diffusers"].contains
    assert tried == {(0, minor) for minor in range(100) if takes(f"0.{minor}.0")}
