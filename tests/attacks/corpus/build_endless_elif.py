"""Sixty thousand branches of one `if`, each nested in the one before.

Kind: Nothing to grade
Relies on: a parser whose recursion follows the source
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    branches = "".join(f"elif x == {i}:\n    pass\n" for i in range(40_000))
    path.write_text(f"{stub}\nx = 1\nif x:\n    pass\n{branches}", encoding="utf-8")
    return path
