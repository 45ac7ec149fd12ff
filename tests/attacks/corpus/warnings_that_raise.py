"""Makes every warning an exception that nobody catches.

Kind: Crashing
Relies on: warnings that the grader itself gives in the same process
Breaks naive: crash
"""

import sys
import warnings


class Furious(BaseException):
    pass


def show(*args, **kwargs):
    raise Furious("a warning")


def leave(*args, **kwargs):
    warnings.warn("here is one", stacklevel=1)


warnings.showwarning = warnings._showwarnmsg = warnings.warn = show
_in_every_call(leave)
