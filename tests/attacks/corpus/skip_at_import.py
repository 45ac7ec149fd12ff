"""Skips the whole module while it is imported.

Kind: Ending the session
Relies on: pytest's skip being raised where nobody catches it
Breaks naive: crash
"""

import pytest

pytest.skip("not today", allow_module_level=True)
