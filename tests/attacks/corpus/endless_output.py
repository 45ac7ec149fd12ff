"""Prints without end.

Kind: Never answering
Relies on: output that is kept in memory, or a pipe that nobody empties
Breaks naive: hang
"""


def shout(*args, **kwargs):
    while True:
        print("all work and no play " * 1000)


_in_every_call(shout)
