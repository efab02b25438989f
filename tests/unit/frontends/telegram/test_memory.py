"""What an idle bot does not carry."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROBE = "import sys, frontends.telegram; print(*[name for name in sys.argv[1:] if sys.modules.get(name)])"
UNUSED = ["telegram.ext", "rich", "pygments", "click", "cryptography", "agent_client", "httpx2"]


@pytest.mark.parametrize("first", ["", "import agent_common.net;"])
def test_the_library_is_imported_without_what_nothing_uses(first: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", first + PROBE, *UNUSED], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == []
