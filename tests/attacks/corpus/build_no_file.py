"""No file at all.

Kind: Nothing to grade
Relies on: a grader that fails without a verdict
Breaks naive: crash
"""


def build(stub, solution, folder):
    return folder / "submission.py"
