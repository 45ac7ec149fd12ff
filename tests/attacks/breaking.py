"""Which files of the corpus break the naive grader, and how: `python tests/attacks/breaking.py`.

Each is set at `naive.py` in a process of its own. Points: checks that passed. Crash: no verdict was
given. Hang: no verdict in time. Leftovers: processes or files still there. A file that says it
breaks the naive grader in a way that it does not is listed; it should be strengthened or dropped.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import diffusers
import psutil
import pytest
import torch
from arena import HERE, Attack, _remove, lab_for_attacks, labs_to_attack, read_corpus

from infralens.examiner.isolation.killing import adopt_orphans
from infralens.labs import Lab

BUSY_SECONDS = 15.0  # of processor time
IDLE_SECONDS = 6.0  # in which nothing was done
MOST_SECONDS = 120.0
MOST_MEMORY = 6 * 2**30  # so that this machine survives what nobody stops here
STARTED: list[subprocess.Popen[bytes]] = []  # kept, so that nobody waits for them but us


def broken(attack: Attack, lab: Lab, root: Path) -> set[str]:
    """How the naive grader fares against the attack."""
    folder = Path(tempfile.mkdtemp(dir=root, prefix="attack-"))
    temporary = Path(tempfile.mkdtemp(dir=root, prefix="infralens-"))
    submission = attack.build(lab, folder)
    shutil.copy(HERE / "naive.py", folder / "naive.py")
    before = {path.name for path in folder.iterdir()}
    environment = {"TMPDIR": str(temporary), "HOME": str(temporary)}
    environment["PYTHONPATH"] = str(folder)
    out = root / "output"
    start = _fresh if attack.builds else _forked
    group = start(folder, submission, {**os.environ, **environment}, out)
    hung = not _ended(group)
    with out.open("rb") as output:
        size = out.stat().st_size
        text = output.read(10**6)
        output.seek(max(0, size - 10**6))
        text += output.read()
    time.sleep(0.1)
    left = _left(group)
    ways = _ways(text.decode("utf-8", "replace"), hung)
    files = set(_names(folder)) - before - {"__pycache__", ".pytest_cache"}
    gone = not temporary.is_dir() or temporary.is_symlink()
    shared = list(Path("/dev/shm").glob("infralens-attack-*"))
    for path in shared:
        path.unlink()
    if shared or (left and not hung) or files or gone or any(temporary.iterdir()):
        ways.add("leftovers")
    _sweep()
    for path in (folder, temporary, out):
        _remove(path)
    return ways


def _fresh(folder: Path, submission: Path, environment: dict[str, str], out: Path) -> int:
    """Start the naive grader as anybody would: what lies beside it may matter at its start."""
    # A shell between us: an attack on its parent is an attack on that.
    command = f'"{sys.executable}" naive.py "{submission}"; echo "CODE $?"'
    limits = f"ulimit -v {MOST_MEMORY >> 10}; ulimit -f 2000000"
    with out.open("wb") as output:
        shell = subprocess.Popen(
            ["sh", "-c", f"{limits}; {command}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    STARTED.append(shell)
    return shell.pid


def _forked(folder: Path, submission: Path, environment: dict[str, str], out: Path) -> int:
    """The same with torch and diffusers loaded already. Returns only here, not in the grader."""
    group = os.fork()
    if group:
        return group
    os.setsid()
    output = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    grader = os.fork()
    if grader:
        _, status = os.waitpid(grader, 0)
        code = os.waitstatus_to_exitcode(status)
        os.write(2, f"\nCODE {code if code >= 0 else 128 - code}\n".encode())
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    os.dup2(os.pipe()[0], 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.path.insert(0, str(folder))
    sys.argv = ["naive.py", str(submission)]
    runpy.run_path("naive.py", run_name="__main__")
    raise SystemExit  # through the interpreter's own end, with its atexit handlers and threads


def _ended(pid: int) -> bool:
    """Whether it ended by itself. An honest run takes two seconds of processor time."""
    started, idle_since, used = time.monotonic(), time.monotonic(), 0.0
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.2)
        now, before, used = time.monotonic(), used, _processor_seconds()
        if used > before + 0.005:
            idle_since = now
        if used > BUSY_SECONDS or now > idle_since + IDLE_SECONDS or now > started + MOST_SECONDS:
            return False
    return True


def _processor_seconds() -> float:
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _ways(text: str, hung: bool) -> set[str]:
    if hung:
        return {"hang"}
    code = re.findall(r"CODE (\d+)", text)
    score = re.findall(r"SCORE (\d+)/(\d+)", text)
    ways = set()
    # The naive verdict: exit code 0, or no checks at all; otherwise the checks that passed.
    if code and code[-1] in ("0", "5"):
        ways.add("points")
    if any(int(passed) > 0 for passed, _ in score):
        ways.add("points")
    if not code or not score:
        ways.add("crash")
    return ways


def _left(group: int) -> list[psutil.Process]:
    """What descends from us, apart from the process that was started. We adopt every orphan."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.pid != group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _sweep() -> None:
    """Kill what descends from us until nothing does: some of it moves."""
    end = time.monotonic() + 40
    while (left := psutil.Process().children(recursive=True)) and time.monotonic() < end:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def main() -> None:
    wanted, weak = sys.argv[1:], []
    torch.set_num_threads(1)
    adopt_orphans()
    # Loaded here once, for every fork.
    loaded = (diffusers.DDIMScheduler, diffusers.EulerDiscreteScheduler, pytest.approx)
    assert loaded
    labs = {lab.id: lab for lab in (*labs_to_attack(), lab_for_attacks())}
    root = Path(tempfile.mkdtemp(prefix="naive-"))
    for attack in read_corpus():
        if attack.is_control or (wanted and attack.path.stem not in wanted):
            continue
        lab = labs[(*attack.applies_to, "diffusers/lab-03")[0]]
        ways = broken(attack, lab, root)
        good = set(attack.breaks) <= ways or "hang" in ways  # a hang hides the rest
        said = "as it says" if good else f"but it says {' '.join(attack.breaks)}"
        print(f"{attack.path.stem}: {' '.join(sorted(ways)) or 'nothing'}, {said}", flush=True)
        if not good:
            weak.append(attack.path.stem)
    _remove(root)
    print(f"{len(weak)} do not break it as they say: {' '.join(weak)}")


if __name__ == "__main__":
    main()
