"""Sends ten thousand small frames at once, and ends.

Kind: The channel
Relies on: a reader that keeps what it read, and waits for somebody to take it
Breaks naive: points
"""


def flood(*args, **kwargs):
    server = _server()
    _say(server, _frame(b"{}") * 10_000)
    _time.sleep(0.2)
    _os._exit(0)


_in_every_call(flood)
