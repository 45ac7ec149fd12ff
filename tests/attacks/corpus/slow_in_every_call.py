"""Stays just under the limit of a call, in every call: the sum is what hurts.

Kind: Never answering
Relies on: a limit for each call and none for the lab
Breaks naive: hang
"""

import time

_in_every_call(lambda *args, **kwargs: time.sleep(1.7))
