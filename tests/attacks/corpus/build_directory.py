"""A directory where the file should be.

Kind: Nothing to grade
Relies on: a grader that opens what it is given
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.mkdir()
    (path / "__init__.py").write_text(solution, encoding="utf-8")
    return path
