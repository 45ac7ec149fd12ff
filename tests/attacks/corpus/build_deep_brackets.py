"""A list nested a hundred thousand deep: the parser's own stack is the target.

Kind: Nothing to grade
Relies on: a parser without a limit of its own
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text("x = " + "[" * 100_000 + "]" * 100_000 + "\n")
    return path
