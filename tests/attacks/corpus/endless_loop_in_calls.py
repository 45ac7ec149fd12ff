"""Never comes back from a call, and ignores every signal that can be ignored.

Kind: Never answering
Relies on: a call without a time limit, or one that only asks nicely
Breaks naive: hang
"""

import signal


def loop(*args, **kwargs):
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(sign, signal.SIG_IGN)
    while True:
        pass


_in_every_call(loop)
