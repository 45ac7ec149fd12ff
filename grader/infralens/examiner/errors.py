"""What both the command and the examiner may meet; importing it takes no time."""

from __future__ import annotations


class SubmissionError(Exception):
    """The submission raised, or gave no answer: never a fault of ours, wherever it comes up."""
