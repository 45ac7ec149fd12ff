"""Sends bytes that begin no frame: zeros, text, an HTTP answer, a pickle.

Kind: The channel
Relies on: a reader that looks for something that it knows
Breaks naive: points
"""

_instead(b"HTTP/1.1 200 OK\r\n\r\npassed\n" + b"cos\nsystem\n(S'true'\ntR." + b"\x00" * 1000)
