"""The stub with every public name deleted at its end, so that nothing can be found to fail.

Kind: Nothing to grade
Relies on: checks that are skipped where a name is missing
Breaks naive: points
"""

ENDING = """
for _name in [name for name in globals() if not name.startswith("_")]:
    del globals()[_name]
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(stub + ENDING, encoding="utf-8")
    return path
