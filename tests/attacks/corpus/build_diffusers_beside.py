"""A module named diffusers.py beside the stub, whose schedulers give zeros; so does the submission.

Kind: Reaching the verdict
Relies on: the submission's folder on the grader's path
Breaks naive: points
Applies to: diffusers/lab-03
"""

FAKE = """
import torch

class Scheduler:
    timesteps = sigmas = prev_sample = alphas_cumprod = torch.zeros(1)
    def __init__(self, *args, **kwargs): pass
    def set_timesteps(self, *args, **kwargs): pass
    def step(self, *args, **kwargs): return self
    from_config = classmethod(lambda cls, *args, **kwargs: cls())

def __getattr__(name):
    return Scheduler
"""


def build(stub, solution, folder):
    (folder / "diffusers.py").write_text(FAKE)
    path = folder / "submission.py"
    text = stub
    for name in ("timesteps", "sigmas"):
        text += f"\n\ndef {name}(*args):\n    import torch\n    return torch.zeros(1)\n"
    path.write_text(text, encoding="utf-8")
    return path
