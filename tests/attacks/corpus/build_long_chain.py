"""An expression of three hundred thousand attributes: legal, and as deep as it is long.

Kind: Nothing to grade
Relies on: a compiler whose recursion follows the source
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(stub + "\ndef f(a):\n    return a" + ".b" * 300_000 + "\n", encoding="utf-8")
    return path
