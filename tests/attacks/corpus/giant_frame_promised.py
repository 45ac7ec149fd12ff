"""Promises four gigabytes of header and eighteen exabytes of body.

Kind: The channel
Relies on: memory that is taken for what is promised
Breaks naive: points
"""

_instead(_struct.pack(">4sIQ", b"ILw1", 2**32 - 1, 2**64 - 1) + b"{}" * 1000)
