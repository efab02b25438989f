"""The official conformance suite is played where `make mcp-conformance` has installed it, and not by a plain pytest."""

from __future__ import annotations

import os

collect_ignore = [] if "MCP_CONFORMANCE" in os.environ else ["test_suite.py"]
