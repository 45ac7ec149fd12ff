"""A file that does not parse.

Kind: Nothing to grade
Relies on: a grader that imports before it looks
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text("def timesteps(:\n")
    return path
