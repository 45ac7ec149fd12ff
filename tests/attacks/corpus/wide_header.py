"""A header of two million small lists: little to send, much to hold.

Kind: The channel
Relies on: memory that follows what is written, many times over
Breaks naive: points
"""

_instead(
    lambda server: _frame(
        b'{"kind":"answer","call":"%s","value":[%s[]]}' % (server.call.encode(), b"[]," * 2_000_000)
    )
)
