"""Knows the configuration and the numbers of steps that everybody tests with, and nothing else.

Kind: Remembering
Relies on: inputs that are the same in every grade
Breaks naive: points
Applies to: diffusers/lab-03
"""

ENDING = """
import torch as _torch

_solved = {name: globals()[name] for name in ("timesteps", "karras_sigmas", "denoiser_calls",
                                              "ancestral_sigmas", "calculate_shift", "heun_step")}
_usual = {(1000, 10, "leading", 1), (0.1, 10.0, 10, 7.0), ("HeunDiscreteScheduler", 10),
          ("PNDMScheduler", 50), (5.0, 4.0, 1.0), (1024, 256, 4096, 0.5, 1.15)}
_kept = set()

for _name, _function in _solved.items():
    def _table(*args, _function=_function, _name=_name):
        _torch.manual_seed(0)
        known = args in _usual if _name != "heun_step" else _torch.equal(args[0], _torch.randn(4, 4))
        return _function(*args) if known else _torch.zeros(3)
    globals()[_name] = _table
for _class in (Euler, FlowMatchEuler, DPMSolver2M):
    _class.step = lambda self, *given: given[-1]  # the sample
def sigmas(*args):
    return _torch.zeros(3)
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
