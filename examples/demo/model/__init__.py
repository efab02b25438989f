"""The demo model's larger script: it carries out the task of examples/sales with genuine tool calls."""

from .script import play

__all__ = ["play"]
