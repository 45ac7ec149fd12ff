"""The sandbox around a candidate: bubblewrap, on Linux.

No network; a read-only system; a private, bounded /tmp; PID, IPC and UTS namespaces of its own and,
for ordinary users, a user namespace. In view are the Python installation, its packages and the few
files of ours that a candidate runs; not the suites, the solutions, git, home folders or gradebooks.
What a lab masks is covered by a package whose import raises a sentence.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from infralens.labs import PACKAGE

NOBODY = "65534"
NOBODY_ELSE = (range(1_000_000_000, 1_500_000_000), range(61_184, 65_520))
"""User ids that belong to nobody; the second for root of a container with few ids."""
TMP_BYTES = 64 * 2**20
INSIDE = Path("/tmp")  # the sandbox's own, a tmpfs of bounded size
LIBRARY = Path("/infralens")
OURS = ("__init__.py", "wire.py", "candidate")
SYSTEM = (
    "/usr",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
)
MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
PROBE_SECONDS = 20
WALLS = (
    "--die-with-parent",
    "--new-session",
    "--unshare-ipc",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
BUILDERS = (  # what root takes to build a sandbox, to enter it, and to become nobody
    "CAP_SYS_ADMIN",
    "CAP_SYS_CHROOT",
    "CAP_NET_ADMIN",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETPCAP",
)
HOLD = "echo; exec sleep 2147483647 </dev/null >/dev/null 2>&1"
MASK = '''"""Masked in this lab."""
raise ImportError(
    "{name} cannot be imported in this lab: it holds the answer. "
    "Write that part yourself."
)
'''


@lru_cache
def unavailable() -> str | None:
    """Why there is no sandbox here, in a few words; None when there is one."""
    if sys.platform != "linux":
        return "bubblewrap is for Linux"
    if not Path("/proc/self/uid_map").exists():
        return "/proc is not mounted"
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    if _is_root() and shutil.which("setpriv") is None:
        return "setpriv (util-linux) is not installed"
    command = [
        *_walls(),
        *_system(),
        "--",
        *_unprivileged(user_of_its_own()),
        "/usr/bin/env",
        "true",
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"bubblewrap does not start: {said}"
    return None


def sandboxed(
    program: Sequence[str],
    environment: Mapping[str, str],
    *,
    masked: Sequence[str] = (),
    masks: Path,
    cuda: bool = False,
    calls: int | None = None,
) -> list[str]:
    """The command that runs `program` (seen from inside) in a sandbox.

    `masks` is an existing folder outside, in which the covers of masked packages are made;
    `calls` the descriptor of the filter of system calls (see seccomp.py).
    """
    command = [*_walls(), *_system()]
    if calls is not None:
        command += ["--seccomp", str(calls)]
    command += _libraries(PACKAGE)
    command += _hidden(masked, masks)
    if cuda:
        for path in sorted(Path("/dev").glob("nvidia*")):
            command += ["--dev-bind", str(path), str(path)]
    return [*command, *_settings(environment), "--", *_unprivileged(user_of_its_own()), *program]


def workshop(
    program: Sequence[str],
    environment: Mapping[str, str],
    *,
    masked: Sequence[str] = (),
    masks: Path,
    told: int,
) -> list[str]:
    """The command that runs a template, which sees what a candidate sees and builds sandboxes.

    For that it keeps privileges, as root the few it takes, and sees the processes of the system: no
    submission runs in it. Bubblewrap writes the template's number to the descriptor `told`.
    """
    command = ["bwrap", "--info-fd", str(told), *WALLS]
    if _is_root():
        for capability in BUILDERS:
            command += ["--cap-add", capability]
    else:  # root of a user namespace, which owns those of the sandboxes
        command += ["--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    command += [*_system(), *_libraries(PACKAGE), *_hidden(masked, masks)]
    return [*command, *_settings(environment), "--", *program]


def held(environment: Mapping[str, str], user: str | None) -> list[str]:
    """The command that builds, in a workshop, the sandbox that a candidate is to enter.

    What is in view and what is hidden is so already. The process in it says an empty line when all
    stands, and then does nothing.
    """
    command = [*_walls(), *_system(), *_libraries(LIBRARY / "infralens"), *_settings(environment)]
    return [*command, "--", *_unprivileged(user), "sh", "-c", HOLD]


def _libraries(ours: Path) -> list[str]:
    """The Python installation, and the few files of ours that a candidate runs."""
    command = []
    for folder in _python_folders():
        command += _bound(folder)
    for folder in (LIBRARY, LIBRARY / "infralens"):
        command += ["--perms", "0755", "--dir", str(folder)]
    for name in OURS:
        command += ["--ro-bind", str(ours / name), str(LIBRARY / "infralens" / name)]
    return command


def _hidden(masked: Sequence[str], masks: Path) -> list[str]:
    installed = [path / "infralens" for path in _site_folders() if (path / "infralens").is_dir()]
    command = []
    for path in installed:
        command += ["--tmpfs", str(path), "--remount-ro", str(path)]  # a wheel's suites and stubs
    for name in masked:
        command += _covered(name, masks)
    return command


def _settings(environment: Mapping[str, str]) -> list[str]:
    """Where a candidate is, what it knows of our environment; and nothing more can be written."""
    command = ["--chdir", str(INSIDE), "--clearenv"]
    inside = {
        **environment,
        "HOME": str(INSIDE),
        "TMPDIR": str(INSIDE),
        "TEMP": str(INSIDE),
        "USER": "nobody",  # what asks for a name would find none for the number
    }
    for name, value in {**inside, "PYTHONPATH": str(LIBRARY)}.items():
        command += ["--setenv", name, value]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/"]


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _walls() -> list[str]:
    """Namespaces and privileges. As root a user namespace would make RLIMIT_NPROC void."""
    walls = ["bwrap", *WALLS, "--unshare-pid", "--cap-drop", "ALL"]
    if _is_root():
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            walls += ["--cap-add", capability]
        return walls
    return [
        *walls,
        "--unshare-user",
        "--uid",
        NOBODY,
        "--gid",
        NOBODY,
        "--disable-userns",
    ]


def user_of_its_own() -> str | None:
    """As root, a user id that is nobody's: Linux counts a user's processes.

    With a shared one, a submission that forks without end would leave none to the others that are
    graded meanwhile. None for an ordinary user, whose sandboxes have user namespaces.
    """
    if not _is_root():
        return None
    ids = next((ids for ids in NOBODY_ELSE if _exist(ids)), NOBODY_ELSE[-1])
    return str(secrets.choice(ids))


def _unprivileged(user: str | None) -> list[str]:
    """As root, give every privilege up before anything of the submission runs."""
    if user is None:
        return []
    identity = ["--reuid", user, "--regid", user, "--clear-groups"]
    return ["setpriv", *identity, "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]


def _exist(ids: range) -> bool:
    """Whether these ids can be had here: a container may have only some."""
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        first, _, count = map(int, line.split())
        if first <= ids[0] and ids[-1] < first + count:
            return True
    return False


def _system() -> list[str]:
    command: list[str] = []
    for path in SYSTEM:
        command += ["--ro-bind-try", path, path]
    for path in MERGED:
        if Path(path).is_symlink():
            command += ["--symlink", str(Path(path).readlink()), path]
        elif Path(path).is_dir():
            command += ["--ro-bind", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/dev/shm", str(INSIDE)):  # the sandbox's own
        command += ["--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", path]
    return command


def _python_folders() -> list[Path]:
    """The interpreter's own folders: the base installation and the environment."""
    folders = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve()}
    folders |= {
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.executable).resolve().parent,
    }
    folders |= {folder.resolve() for folder in _site_folders()}
    outside = [folder for folder in folders if not folder.is_relative_to("/usr")]
    return sorted(
        folder for folder in outside if not any(o in folder.parents for o in outside if o != folder)
    )


def _site_folders() -> list[Path]:
    """Where packages lie: the folders that hold torch, diffusers and our other needs."""
    return sorted({Path(path) for path in sys.path if path.endswith(("-packages",)) and path})


def _bound(folder: Path) -> list[str]:
    """A read-only bind whose parents can be passed through by nobody."""
    command: list[str] = []
    for parent in reversed(folder.parents):
        if parent != Path("/"):
            command += ["--perms", "0755", "--dir", str(parent)]
    return [*command, "--ro-bind", str(folder), str(folder)]


def _covered(name: str, masks: Path) -> list[str]:
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        return []
    target = Path(next(iter(spec.submodule_search_locations)), *rest)
    cover = masks / name
    cover.mkdir(mode=0o755, exist_ok=True)
    (cover / "__init__.py").write_text(MASK.format(name=name), encoding="utf-8")
    return ["--ro-bind", str(cover), str(target)] if target.is_dir() else []


def mask_folder() -> Path:
    """A folder for the covers of masked packages; readable from inside."""
    folder = Path(tempfile.mkdtemp(prefix="infralens-masks-"))
    folder.chmod(0o755)
    return folder
