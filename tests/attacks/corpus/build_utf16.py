"""The solution in UTF-16.

Kind: Nothing to grade
Relies on: a grader that reads text without care
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution, encoding="utf-16")
    return path
