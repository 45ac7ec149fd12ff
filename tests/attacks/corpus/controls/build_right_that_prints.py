"""The solution, which prints in every call, to both streams.

Kind: Controls
Relies on: nothing
Deserves: all
"""

ENDING = """
import sys as _sys

for _name, _function in list(globals().items()):
    if getattr(_function, "__module__", None) == __name__ and not isinstance(_function, type):
        def _loud(*args, _function=_function, **kwargs):
            print("called with", args, "x" * 5000)
            print("and on the other stream: \\x1b[31m", file=_sys.stderr)
            return _function(*args, **kwargs)
        globals()[_name] = _loud
print("hello from the import")
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
