"""The solution, whose tensors come back as views, not contiguous and with a gradient.

Kind: Controls
Relies on: nothing
Deserves: all
"""

ENDING = """
import torch
def _view(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return torch.stack([value, value], -1)[..., 0].requires_grad_()
    return value
for _name, _function in list(globals().items()):
    if getattr(_function, "__module__", None) == __name__ and not isinstance(_function, type):
        if not _name.startswith("_"):
            def _viewed(*args, _function=_function, **kwargs):
                return _view(_function(*args, **kwargs))
            globals()[_name] = _viewed
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
