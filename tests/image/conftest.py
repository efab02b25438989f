"""What needs the built image is collected where `make container-test` has built it, and says where it lies."""

from __future__ import annotations

import os

collect_ignore = [] if "IMAGE_DIR" in os.environ else ["built"]
