"""The solution for the first call of the process, zeros for every later one.

Kind: Remembering
Relies on: one case a function
Breaks naive: points
"""

ENDING = """
import torch as _torch

_calls = []
for _name, _function in list(globals().items()):
    if getattr(_function, "__module__", None) == __name__ and not _name.startswith("_"):
        if not isinstance(_function, type):
            def _first(*args, _function=_function, **kwargs):
                _calls.append(0)
                return _function(*args, **kwargs) if len(_calls) < 2 else _torch.zeros(3)
            globals()[_name] = _first
for _class in [v for v in globals().values() if isinstance(v, type) and v.__module__ == __name__]:
    for _name, _method in list(vars(_class).items()):
        if callable(_method) and not _name.startswith("_"):
            def _first(self, *args, _method=_method, **kwargs):
                _calls.append(0)
                return _method(self, *args, **kwargs) if len(_calls) < 2 else _torch.zeros(3)
            setattr(_class, _name, _first)
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
