"""A header of a million brackets.

Kind: The channel
Relies on: a reader that recurses
Breaks naive: points
"""

_instead(
    lambda server: _frame(
        b'{"kind":"answer","call":"%s","value":%s}'
        % (server.call.encode(), b"[" * 10**6 + b"]" * 10**6)
    )
)
