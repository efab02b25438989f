"""`agent -p TEXT`: one turn, its answer on stdout, its outcome as the exit code.

The turn belongs to this process: Ctrl-C, SIGTERM and the end of `--timeout` stop it at the server. A turn that waits
for a person is left to wait there.
"""

from .follow import print_mode

__all__ = ["print_mode"]
