"""The solution, with conftest.py, pytest.ini and modules of well-known names beside it.

Kind: Controls
Relies on: nothing
Deserves: all
"""


def build(stub, solution, folder):
    for name in ("conftest", "torch", "diffusers", "json", "infralens"):
        (folder / f"{name}.py").write_text("raise SystemExit(1)\n")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    path = folder / "a name with spaces; and $(more) 'é.py"
    path.write_text(solution, encoding="utf-8")
    return path
