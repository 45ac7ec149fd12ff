"""/dev/zero: a file without an end.

Kind: Nothing to grade
Relies on: a grader that reads to the end
Breaks naive: crash
"""

from pathlib import Path


def build(stub, solution, folder):
    return Path("/dev/zero")
