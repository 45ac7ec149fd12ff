"""The solution with a cache keyed by the id of its arguments, which are used again when they die.

Kind: Remembering
Relies on: arguments that stay alive, or that are few
Breaks naive: points
Applies to: diffusers/lab-03
Deserves: 3.4 3.6 3.7 3.8
"""

ENDING = """
_known = {}
def _cached(name, function):
    def call(*args):
        key = name, len(args)
        if key not in _known:
            _known[key] = function(*args)
        return _known[key]
    return call
for _name in ("timesteps", "sigmas", "karras_sigmas", "calculate_shift"):
    globals()[_name] = _cached(_name, globals()[_name])
for _class in (Euler, FlowMatchEuler):
    _class.step = _cached(_class.__name__, lambda self, output, t, sample: sample)
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
