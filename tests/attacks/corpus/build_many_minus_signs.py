"""An expression of half a million minus signs.

Kind: Nothing to grade
Relies on: a parser whose recursion follows the source
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(stub + "\nx = " + "-" * 500_000 + "1\n", encoding="utf-8")
    return path
