"""Removes __import__ and open from the builtins.

Kind: Reaching the verdict
Relies on: a grader in the same process
Breaks naive: crash
"""

import builtins

del builtins.__import__
del builtins.open
