"""A module named torch.py beside the stub, which ends whoever imports it with exit code 0.

Kind: Reaching the verdict
Relies on: the submission's folder on the grader's path
Breaks naive: points
"""


def build(stub, solution, folder):
    (folder / "torch.py").write_text("import os\nos._exit(0)\n")
    path = folder / "submission.py"
    path.write_text(stub, encoding="utf-8")
    return path
