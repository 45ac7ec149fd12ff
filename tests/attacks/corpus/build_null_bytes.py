"""A file with null bytes in it.

Kind: Nothing to grade
Relies on: a compiler's ValueError that nobody expects
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_bytes(stub.encode() + b"\x00" * 100)
    return path
