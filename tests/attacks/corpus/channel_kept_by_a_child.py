"""Ends, while a child in another session keeps the channel and goes on answering.

Kind: The channel
Relies on: one process at the other end
Breaks naive: leftovers
"""


def share(*args, **kwargs):
    if _os.fork():
        _os._exit(0)
    _os.setsid()
    end = _time.monotonic() + 30
    while _time.monotonic() < end:
        _time.sleep(0.1)
    _os._exit(0)


_in_every_call(share)
