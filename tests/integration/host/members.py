"""Agents of teams at a host, without runtimes: their workspaces and their tokens."""

from __future__ import annotations

from contextlib import closing

from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.database import open_database

from .live import Host


def make_member(host: Host, name: str, team: str = "default") -> str:
    """Make a workspace of the team, and return a token of its agent."""
    reply = host.operator.post("/workspaces", json={"id": name, "driver": "external", "team": team})
    assert reply.status_code == 201, reply.text
    return make_token(host, name)


def make_token(host: Host, name: str) -> str:
    """Return a further token of the agent."""
    url = host.env.get("MESH_DATABASE_URL", f"sqlite:///{host.data_dir / 'mesh.db'}")
    with closing(open_database(url)) as database:
        store = TokenStore(database, SystemClock())
        return database.run_sync(lambda connection: store.mint_in(connection, name, "manual"))
