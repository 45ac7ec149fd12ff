"""A file of blanks and line ends.

Kind: Nothing to grade
Relies on: "no checks were run" counting as a pass
Breaks naive: points
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(" \n\t\n" * 1000 + "\f\n")
    return path
