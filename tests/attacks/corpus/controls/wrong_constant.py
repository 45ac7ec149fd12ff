"""One half everywhere.

Kind: Controls
Relies on: nothing
"""

_answer_everywhere(lambda *args: 0.5)
