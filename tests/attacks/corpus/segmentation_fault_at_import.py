"""Reads address 0 while it is imported.

Kind: Crashing
Relies on: a grader in the same process
Breaks naive: crash
"""

import ctypes

ctypes.string_at(0)
