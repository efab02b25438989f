"""How the interpreter is set in a process that serves, on either side."""

from __future__ import annotations

import gc
import sys

SWITCH_SECONDS = 0.002
"""How long a thread may compute while the event loop waits for the interpreter, once for each step of an answer. With
Python's own figure, 5 ms, a tool's schema that takes for ever to check is felt in `/status`; with 0.5 ms the hand-overs
between a loop and its writer cost a third of all work on the mediation channel."""


def tune_interpreter() -> None:
    """Once all is loaded: that stays for good, and the collector need not look at it again, which would stop everybody
    for a twentieth of a second. And a thread that works hard lets the event loop go on soon."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.enable()
