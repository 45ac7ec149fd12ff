"""What proves the labs themselves, and what begins a new one."""

from infralens.authoring.proofs import Fault, MarginRow, Proof, margin_lines
from infralens.authoring.runs import SEEDS, prove
from infralens.authoring.texts import current_stub, page_faults

__all__ = [
    "SEEDS",
    "Fault",
    "MarginRow",
    "Proof",
    "current_stub",
    "margin_lines",
    "page_faults",
    "prove",
]
