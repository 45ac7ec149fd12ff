"""The kit beside what somebody has already. Run: python tests/contract/beside.py diffusers==0.36.0

Makes an environment that holds the given requirements, with transformers and accelerate as these
want them and torch as constraints.txt pins it (unless one is given), and installs the wheel of this
checkout into it. Nothing that was there may have changed; then `infralens doctor` and `infralens
check` are to find nothing: each untouched stub 0 points, each solution full marks over two seeds,
each named wrong answer failed and named. It is run by hand, and weekly by releases.yml; the exit
code is 1 where something did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 2
ALSO = ("diffusers", "torch", "transformers", "accelerate")  # what those who use diffusers have
BIG = "torch"  # unpinned, a build of several gigabytes


def wanted(given: Sequence[str]) -> list[str]:
    """What the environment is to hold before the kit comes: the given, and what goes with it."""
    named = {Requirement(one).name for one in given}
    return [*given, *(name for name in ALSO if name not in named)]


def pins(given: Sequence[str], constraints: str) -> str:
    """The constraints of both installations: the tested torch, unless another one is given."""
    named = {Requirement(one).name for one in given}
    lines = constraints.splitlines()
    return "\n".join(line for line in lines if line.startswith(f"{BIG}==") and BIG not in named)


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What an installation did to what was there, a line each."""
    return [
        f"{name} {release} was replaced by {after.get(name, 'nothing')}"
        for name, release in sorted(before.items())
        if after.get(name) != release
    ]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the constraints of what is installed there."""

    folder: Path
    pins: Path

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin") / "python"

    def install(self, *requirements: str) -> None:
        self.run("-m", "pip", "install", "-q", "-c", str(self.pins), *requirements, check=True)

    def packages(self) -> dict[str, str]:
        listed = self.run("-m", "pip", "list", "--format", "json", check=True, read=True).stdout
        return {one["name"]: one["version"] for one in json.loads(listed)}

    def run(
        self, *arguments: str, check: bool = False, read: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Its Python, away from the checkout, so that the kit can only be the installed one."""
        return subprocess.run(
            [str(self.python), "-P", *arguments],
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdout=subprocess.PIPE if read else None,
            text=True,
            check=check,
        )


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True)
    return next(folder.glob("*.whl"))


def faults(place: Environment, wheel: Path, given: Sequence[str], *check: str) -> list[str]:
    """What did not hold, a line each."""
    place.folder.mkdir(parents=True)
    venv.create(place.folder, with_pip=True)
    place.install(*wanted(given))
    before = place.packages()
    place.install(str(wheel))
    after = place.packages()
    print(", ".join(f"{name} {after[name]}" for name in (*ALSO, "peft", "numpy")), flush=True)
    found = changed(before, after)
    for command in (("doctor",), ("check", *check)):
        code = place.run("-m", "infralens", *command).returncode
        if code:
            found.append(f"infralens {' '.join(command)} ended with {code}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("given", nargs="+", help="a requirement, as pip reads it")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="for the solutions")
    parser.add_argument("--lab", action="append", default=[], help="only this lab")
    parser.add_argument("--keep", type=Path, help="a new folder for the environment, which stays")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="infralens-beside-") as name:
        folder = (options.keep or Path(name) / "env").resolve()
        place = Environment(folder, Path(name) / "constraints.txt")
        tested = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        place.pins.write_text(pins(options.given, tested), encoding="utf-8")
        labs = [word for lab in options.lab for word in ("--lab", lab)]
        wheel = built(Path(name))
        found = faults(place, wheel, options.given, "--seeds", str(options.seeds), *labs)
    print("\n".join(found) or f"{' '.join(options.given)}: all of it holds", flush=True)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
