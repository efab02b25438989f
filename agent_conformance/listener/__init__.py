"""Rules that a mediation listener must keep."""

from . import control, hello, work

__all__ = ["control", "hello", "work"]
