"""Decide whether a call is allowed by rules and grants. Pure functions, without I/O."""

from ..permission import MAX_PATTERN_STARS
from .globs import covers, matches
from .grants import VARIABLES, expand_variables, requirements_fault
from .layers import ALL_GRANTED, Authority, Layer
from .rules import Access, Decision, decide

__all__ = [
    "ALL_GRANTED",
    "MAX_PATTERN_STARS",
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
