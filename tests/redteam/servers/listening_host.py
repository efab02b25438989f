"""A host that agents come to for work, and what its audit trail holds."""

from __future__ import annotations

from typing import Any

from tests.integration.host.live import Host


class ListeningHost(Host):
    """A host with workspaces whose agents somebody else starts."""

    @property
    def port(self) -> int:
        """Where agents attach."""
        return int(self.process.wait_for_output(r"agents come for work to tcp://127.0.0.1:(\d+)")[1])

    def enrol(self, name: str) -> str:
        """Make a workspace. Return its key."""
        made = self.operator.post("/workspaces", json={"id": name, "driver": "external"})
        assert made.status_code == 201, made.text
        return made.json()["mediation_key"]

    def trail(self, workspace: str | None = None, after: int = 0) -> list[dict[str, Any]]:
        """Return the rows of the audit trail behind that one, of one workspace or of all."""
        only, rows = {"workspace": workspace} if workspace else {}, list[dict[str, Any]]()
        while True:
            page = self.operator.get("/audit", params={**only, "after": after, "limit": 1000}).json()
            rows += page["entries"]
            if (after := page["next"]) is None:
                return rows
