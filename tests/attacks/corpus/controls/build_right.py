"""The solution as it is.

Kind: Controls
Relies on: nothing
Deserves: all
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution, encoding="utf-8")
    return path
