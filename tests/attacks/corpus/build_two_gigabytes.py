"""A file of 2 GiB (sparse, so that the disk survives).

Kind: Nothing to grade
Relies on: a grader that reads without a limit
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    with path.open("wb") as file:
        file.write(solution.encode())
        file.truncate(2 * 2**30)
    return path
