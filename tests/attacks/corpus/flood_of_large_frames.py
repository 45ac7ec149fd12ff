"""Sends frames of 250 MiB, one after another, whether they are read or not.

Kind: The channel
Relies on: a limit on one frame and none on all that wait
Breaks naive: points
"""


def flood(*args, **kwargs):
    server = _server()
    head = _struct.pack(">4sIQ", b"ILw1", 2, 250 * 2**20) + b"{}"
    piece = b"x" * 2**20
    for _ in range(6):
        _say(server, head)
        for _ in range(250):
            _say(server, piece)
    _time.sleep(5)


_in_every_call(flood)
