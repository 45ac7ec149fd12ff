"""The solution, which starts a program, and reads and writes files of its own.

Kind: Controls
Relies on: nothing
Deserves: all
"""

ENDING = """
import pathlib as _pathlib, subprocess as _subprocess, sys as _sys, tempfile as _tempfile

_subprocess.run([_sys.executable, "-c", "print(1)"], check=True)
with _tempfile.TemporaryDirectory() as _folder:
    _pathlib.Path(_folder, "notes").write_text("x")
_pathlib.Path("left behind").write_text("x")
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
