"""ValueError everywhere, which some checks ask for.

Kind: Controls
Relies on: nothing
"""


def refuse(*args, **kwargs):
    raise ValueError("no")


_in_every_call(refuse)
