"""None everywhere.

Kind: Controls
Relies on: nothing
"""

_answer_everywhere(lambda *args: None)
