"""pytest.ini, tox.ini and setup.cfg beside the stub, which ask pytest only to collect.

Kind: Reaching the verdict
Relies on: pytest reading its configuration where the submission lies
Breaks naive: points
"""


def build(stub, solution, folder):
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    (folder / "tox.ini").write_text("[pytest]\naddopts = --collect-only\n")
    (folder / "setup.cfg").write_text("[tool:pytest]\naddopts = --collect-only\n")
    path = folder / "submission.py"
    path.write_text(stub, encoding="utf-8")
    return path
