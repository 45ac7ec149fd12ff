"""Writes to descriptor 2 without end, past sys.stderr.

Kind: Never answering
Relies on: only sys.stdout being looked after
Breaks naive: hang
"""

import os


def shout(*args, **kwargs):
    while True:
        os.write(2, b"\x1b[2J\x07\x00" * 10_000)


_in_every_call(shout)
