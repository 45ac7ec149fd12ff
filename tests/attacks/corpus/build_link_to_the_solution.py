"""A symbolic link to the solution.

Kind: Nothing to grade
Relies on: a grader that follows links with its own rights
Breaks naive: points
"""


def build(stub, solution, folder):
    target = folder / "elsewhere.py"
    target.write_text(solution, encoding="utf-8")
    path = folder / "submission.py"
    path.symlink_to(target)
    return path
