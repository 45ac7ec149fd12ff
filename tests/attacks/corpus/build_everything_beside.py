"""Files named like all that a grader imports, and startup files, beside the stub.

Kind: Reaching the verdict
Relies on: the submission's folder on the path of the grader or of a process that it starts
Breaks naive: points
"""

NAMES = (
    "sitecustomize usercustomize json numpy pytest psutil yaml safetensors infralens secrets queue "
    "subprocess tempfile struct typing ast signal hashlib platform"
)


def build(stub, solution, folder):
    for name in NAMES.split():
        (folder / f"{name}.py").write_text("import os\nos._exit(0)\n")
    path = folder / "submission.py"
    path.write_text(stub, encoding="utf-8")
    return path
