"""Which processes coverage measures beside the tests' own: `MEASURED` is the environment of one that is.

To start takes twice as long with it, and most end-to-end tests start servers of their own. So only the servers that
many tests share are measured, and the first one that each file of end-to-end tests starts, with whatever they start.
"""

from __future__ import annotations

import os

MEASURED = {name: value for name, value in os.environ.items() if name == "COVERAGE_PROCESS_CONFIG"}
"""Set by coverage, as `patch = subprocess` asks for; `tests/conftest.py` takes it away from all others."""
