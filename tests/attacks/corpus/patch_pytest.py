"""Replaces pytest's own machinery: every call of a check passes without running it.

Kind: Reaching the verdict
Relies on: pytest running in the same process
Breaks naive: points
"""

import _pytest.python

_pytest.python.Function.runtest = lambda self: None
_pytest.python.Function.setup = lambda self: None
