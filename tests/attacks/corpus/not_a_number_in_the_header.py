"""NaN and infinities as bare words in the JSON header.

Kind: The channel
Relies on: JSON readers that take them
Breaks naive: points
"""

_instead(
    lambda server: _frame(
        b'{"kind":"answer","call":"%s","value":[NaN,Infinity,-Infinity]}' % server.call.encode()
    )
)
