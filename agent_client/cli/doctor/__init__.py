"""`agent doctor`: checks of this machine, of the host and of its agents, each with the fix for what it finds.

A check is a function that returns findings. It never raises, and waits for nothing longer than a few seconds.
"""

from .examine import examine
from .finding import Finding

__all__ = ["Finding", "examine"]
