"""`agent bots` with a token and without a URL, on a machine with two hosts, neither at the port that is usual."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agent_testing import LiveProcess
from agent_testing.telegram import FakeTelegram
from tests.integration.host.live import Host

PATIENCE = 60.0


@pytest.mark.slow
def test_a_token_without_a_url_goes_to_the_host_of_the_current_context(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("ours", "other")}
    with (
        FakeTelegram() as telegram,
        Host(folders["ours"], MESH_PROVIDER="demo", MESH_ADMIN_TOKEN="operator-of-ours") as ours,
        Host(folders["other"], MESH_PROVIDER="demo", MESH_ADMIN_TOKEN="operator-of-other") as other,
    ):
        token = tmp_path / "token"
        token.write_text("operator-of-ours")
        token.chmod(0o600)
        contexts = tmp_path / ".config/agent/contexts.json"
        contexts.parent.mkdir(parents=True)
        known = [
            {"name": name, "url": host.url, "kind": "host", "token": "of the context", "data_dir": str(folders[name])}
            for name, host in (("ours", ours), ("other", other))
        ]
        environment = {
            "HOME": str(tmp_path),
            "MESH_TOKEN_FILE": str(token),
            "BOTS_WORKSPACE": "a",
            "TELEGRAM_BOT_TOKEN": telegram.token,
            "TELEGRAM_BASE_URL": telegram.url,
        }
        for current, said in (
            ("ours", "the bots have the token of an operator"),
            ("other", "the host does not accept"),
        ):
            contexts.write_text(json.dumps({"current": current, "contexts": known}))
            contexts.chmod(0o600)
            with LiveProcess([sys.executable, "-m", "agent_client", "bots"], environment) as bots:
                bots.wait_for_output(said, PATIENCE)
