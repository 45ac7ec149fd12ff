"""The stub as it is.

Kind: Controls
Relies on: nothing
"""
