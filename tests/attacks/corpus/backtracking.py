"""A regular expression that needs longer than the universe has.

Kind: Never answering
Relies on: a time limit kept by a thread of the same process
Breaks naive: hang
"""

import re

_in_every_call(lambda *args, **kwargs: re.match(r"(a+)+$", "a" * 200 + "b"))
