"""Closes and replaces every stream, and makes the replacements raise.

Kind: Reaching the verdict
Relies on: a grader that prints from the same process
Breaks naive: crash
"""

import sys


class Mute:
    def __getattr__(self, name):
        raise BaseException("nobody prints here")


sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = Mute()
sys.excepthook = sys.unraisablehook = lambda *args: None
