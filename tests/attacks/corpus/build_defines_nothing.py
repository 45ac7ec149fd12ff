"""A file that has a comment and nothing else.

Kind: Nothing to grade
Relies on: checks that are made only for what is there
Breaks naive: points
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text("# All done.\n")
    return path
