"""The solution, with its first answer for each kind and shape of arguments returned ever after.

Kind: Remembering
Relies on: one case for each shape
Breaks naive: points
"""

ENDING = """
import torch as _torch

_known = {}
def _key(value):
    return tuple(value.shape) if isinstance(value, _torch.Tensor) else type(value).__name__
def _cached(name, function, method):
    def call(*args, **kwargs):
        key = name, *map(_key, args[method:])
        if key not in _known:
            _known[key] = function(*args, **kwargs)
        return _known[key]
    return call
for _name, _value in list(globals().items()):
    if getattr(_value, "__module__", None) != __name__ or _name.startswith("_"):
        continue
    if isinstance(_value, type):
        for _inner, _method in list(vars(_value).items()):
            if callable(_method) and not _inner.startswith("_"):
                setattr(_value, _inner, _cached(_name + _inner, _method, 1))
    else:
        globals()[_name] = _cached(_name, _value, 0)
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
