"""Gives its process one second of processor time, and uses it.

Kind: Crashing
Relies on: a grader in the same process
Breaks naive: crash
"""

import resource


def burn(*args, **kwargs):
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


_in_every_call(burn)
