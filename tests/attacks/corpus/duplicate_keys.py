"""A header with every key twice, first harmless and then not.

Kind: The channel
Relies on: two readers of which one takes the first and one the last
Breaks naive: points
"""

_instead(
    lambda server: _frame(
        b'{"kind":"answer","kind":"ready","call":"%s","value":0,"value":1}' % server.call.encode()
    )
)
