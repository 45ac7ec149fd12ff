"""The solution when torch's global seed is one that graders like, zeros otherwise.

Kind: Remembering
Relies on: a fixed seed, set in the submission's process
Breaks naive: points
"""

ENDING = """
import torch as _torch

for _name, _function in list(globals().items()):
    if getattr(_function, "__module__", None) == __name__ and not _name.startswith("_"):
        if not isinstance(_function, type):
            def _seeded(*args, _function=_function, **kwargs):
                return _function(*args, **kwargs) if _torch.initial_seed() in (0, 1, 42) else None
            globals()[_name] = _seeded
for _class in [v for v in globals().values() if isinstance(v, type) and v.__module__ == __name__]:
    for _name, _method in list(vars(_class).items()):
        if callable(_method) and not _name.startswith("_"):
            def _seeded(self, *args, _method=_method, **kwargs):
                seeded = _torch.initial_seed() in (0, 1, 42)
                return _method(self, *args, **kwargs) if seeded else None
            setattr(_class, _name, _seeded)
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
