"""Closes the channel and goes on running.

Kind: The channel
Relies on: waiting for a process that has nothing more to say
Breaks naive: hang
"""


def close(*args, **kwargs):
    server = _server()
    server.answers.close()
    server.requests.close()
    _time.sleep(600)


if "naive" in _sys.argv[0]:
    _time.sleep(600)
_in_every_call(close)
