"""Lent things: no misconception has a name here."""
