"""A valid file of 2 MiB, most of it comments.

Kind: Nothing to grade
Relies on: a limit on size that is missing or not said
Breaks naive: points
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + "# " + "x" * 2 * 2**20 + "\n", encoding="utf-8")
    return path
