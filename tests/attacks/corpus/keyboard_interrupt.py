"""Raises KeyboardInterrupt in every call, as if the user had stopped the run.

Kind: Ending the session
Relies on: a runner that ends on Ctrl-C
Breaks naive: crash
"""


def leave(*args, **kwargs):
    import os

    if "PYTEST_CURRENT_TEST" in os.environ:
        os.environ["PYTEST_CURRENT_TEST"] = "(the end)"
        os.abort()
    raise KeyboardInterrupt


_in_every_call(leave)
