"""The solution, with one hundredth of a percent added to every floating point answer.

Kind: Controls
Relies on: nothing
Applies to: diffusers/lab-03
Deserves: 3.1 3.6
"""

ENDING = """
def _off(value):
    if isinstance(value, tuple):
        return tuple(map(_off, value))
    if isinstance(value, float) or isinstance(value, Tensor) and value.is_floating_point():
        return value * 1.0001
    return value
def _wrapped(function):
    return lambda *args, **kwargs: _off(function(*args, **kwargs))
for _name in ("sigmas", "karras_sigmas", "ancestral_sigmas", "calculate_shift", "heun_step"):
    globals()[_name] = _wrapped(globals()[_name])
for _class in (Euler, FlowMatchEuler, DPMSolver2M):
    _class.step = _wrapped(_class.step)
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
