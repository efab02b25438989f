"""What may be done, worked out from rules and grants: pure functions over what is written down."""

from .globs import covers, matches
from .grants import VARIABLES, expand_variables, requirements_fault
from .layers import ALL_GRANTED, Authority, Layer
from .rules import Access, Decision, decide

__all__ = [
    "ALL_GRANTED",
    "VARIABLES",
    "Access",
    "Authority",
    "Decision",
    "Layer",
    "covers",
    "decide",
    "expand_variables",
    "matches",
    "requirements_fault",
]
