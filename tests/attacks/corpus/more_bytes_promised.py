"""Promises 8 MiB of header and 250 MiB of body, and sends a line.

Kind: The channel
Relies on: memory that is taken for what is promised
Breaks naive: points
"""

_instead(_struct.pack(">4sIQ", b"ILw1", 8 * 2**20, 250 * 2**20) + b'{"kind": "answer"}')
