"""What needs the built wheel is collected where `make wheel-test` has built it, and says where it lies."""

from __future__ import annotations

import os

collect_ignore = [] if "WHEEL_DIR" in os.environ else ["test_wheel.py"]
