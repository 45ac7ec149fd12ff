"""An older diffusers, another one each day, before all else that is here.

Run: python tests/contract/older.py [RELEASE]

The labs whose suites ask an older release otherwise are graded under it: their solutions, as last
committed, are to have full marks. It takes the releases that the weekly workflow tries whole, with
`beside.py`; here only diffusers itself is installed, which is a matter of seconds, and the rest is
what is here. The date, or the release as an argument, says which. Exits with 1 where points lack,
and where a release that was named cannot be installed.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import yaml

from infralens.labs import Lab, find_labs

ROOT = Path(__file__).resolve().parents[2]
SUITES = ROOT / "grader/infralens/suites"
WORKFLOW = ROOT / ".github/workflows/releases.yml"
ASKS = "since("  # of infralens.suites.releases
FIRST = "from importlib.metadata import version; print(version('diffusers'))"


def releases() -> list[str]:
    """The older releases that are tried weekly, the oldest first."""
    matrix = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["beside"]["strategy"]
    pins = (one.partition("==") for one in matrix["matrix"]["has"])
    return [release for name, _, release in pins if name == "diffusers"]


def asking() -> list[Lab]:
    """The labs whose suites ask which release is installed, or share a module that does."""
    shared = (path for path in SUITES.glob("*.py") if path.stem != "releases")
    askers = [path.stem for path in shared if ASKS in path.read_text(encoding="utf-8")]
    words = [ASKS, *(f"suites{how}{name}" for name in askers for how in (".", " import "))]
    return [
        lab
        for lab in find_labs()
        for text in ["".join(path.read_text(encoding="utf-8") for path in lab.suite.glob("*.py"))]
        if any(word in text for word in words)
    ]


def environment(folder: Path, release: str) -> Path:
    """The Python of an environment with this release first, and after it all that is here."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.rglob("site-packages")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile"]
    command += ["--target", str(packages), f"diffusers=={release}"]
    if subprocess.run(command, check=False).returncode:
        raise LookupError(release)
    here = [path for path in sys.path if path.endswith("-packages")]
    (packages / "here.pth").write_text("\n".join([*here, str(ROOT / "grader")]), encoding="utf-8")
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def main() -> int:
    known = releases()
    release = sys.argv[1] if sys.argv[1:] else known[datetime.date.today().toordinal() % len(known)]
    labs = [word for lab in asking() for word in ("--lab", lab.id)]
    with tempfile.TemporaryDirectory(prefix="infralens-older-") as name:
        try:
            python = environment(Path(name) / "env", release)
        except LookupError:  # whether a registry has it says nothing of this kit
            print(f"diffusers {release} cannot be installed here, so no lab was tried with it")
            return 1 if sys.argv[1:] else 0
        found = subprocess.check_output([str(python), "-P", "-c", FIRST], text=True).strip()
        print(f"diffusers {found}", flush=True)
        if found != release:
            return 1
        command = ["-P", "-m", "infralens", "check", "--ref", "HEAD", "--repo", str(ROOT), *labs]
        return subprocess.run([str(python), *command], cwd=name, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
