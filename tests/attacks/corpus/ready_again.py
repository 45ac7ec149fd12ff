"""Says "ready" again, as a process that has just started would.

Kind: The channel
Relies on: a state machine that follows the peer
Breaks naive: points
"""

_instead(_frame({"kind": "ready"}) * 3)
