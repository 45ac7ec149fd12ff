"""Returns the very tensor that it was given, whatever is asked.

Kind: Strange answers
Relies on: a comparison of an object with itself
Breaks naive: points
"""

_answer_everywhere(lambda *args: args[-1] if args else 0.0)
