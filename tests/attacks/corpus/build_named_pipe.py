"""A named pipe that nobody writes to.

Kind: Nothing to grade
Relies on: a grader that opens and waits
Breaks naive: hang
"""

import os


def build(stub, solution, folder):
    path = folder / "submission.py"
    os.mkfifo(path)
    return path
