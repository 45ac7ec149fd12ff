"""An empty file.

Kind: Nothing to grade
Relies on: "no checks were run" counting as a pass
Breaks naive: points
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text("")
    return path
