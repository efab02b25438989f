"""What the host's gateway adds to an agent's API: the same requests by the agent's address and through the host."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from agent_testing import LiveProcess

from .client import Client, Exchange
from .load import TEXT, Samples, new_session, provider_work
from .targets import Live

_TOKEN, _AGENT = "gateway", "direct"
_PATIENCE = 60.0
_TURNS, _WARM = 100, 20
_TOKENS, _STREAMS = 2000, 5


async def gateway(_live: Live, provider: str, turns: int = _TURNS, streams: int = _STREAMS) -> Samples:
    """Turns and streams, in turns by both ways, so that a noisy moment hits both."""
    openai = {"MESH_PROVIDER": "openai", "OPENAI_BASE_URL": provider}
    async with hosted_agent(**openai) as (_, direct, through):
        ways = {"direct": direct, "through": through}
        samples: Samples = {f"{way} {what}": [] for way in ways for what in ("turn", "tokens")}
        for client in ways.values():
            for _ in range(_WARM):
                await _turn(client, provider)
        for number in range(turns):
            for way in sorted(ways, reverse=bool(number % 2)):
                samples[f"{way} turn"].append(await _turn(ways[way], provider))
        for number in range(streams):
            for way in sorted(ways, reverse=bool(number % 2)):
                samples[f"{way} tokens"].append(await _tokens_per_second(ways[way]))
    samples["added"] = [_median(samples["through turn"]) - _median(samples["direct turn"])]
    samples["share"] = [_median(samples["through tokens"]) / _median(samples["direct tokens"])]
    return samples


async def _turn(client: Client, provider: str) -> float:
    """Milliseconds of a turn in a new session, without the provider's own."""
    _, before = await provider_work(provider)
    reply = await client.post("/chat", {"message": TEXT, "session_id": new_session()})
    _check(reply)
    _, after = await provider_work(provider)
    return (reply.wall - (after - before)) * 1000


async def _tokens_per_second(client: Client) -> float:
    body = {"message": f"stream:{_TOKENS}:0", "session_id": new_session()}
    reply = await client.post("/chat/stream", body)
    _check(reply)
    if (got := reply.body.count(b"word ")) != _TOKENS:
        raise RuntimeError(f"{got} of {_TOKENS} tokens arrived")
    return _TOKENS / reply.wall


def _check(reply: Exchange) -> None:
    if reply.status != 200:
        raise RuntimeError(f"the agent answered {reply.status}: {reply.body[:500]!r}")


def _median(samples: list[float]) -> float:
    return sorted(samples)[len(samples) // 2]


@asynccontextmanager
async def hosted_agent(**settings: str) -> AsyncGenerator[tuple[int, Client, Client]]:
    """A host with one agent: the host's process, clients of the agent's own address and of its API at the host."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        env = {
            "MESH_DATA_DIR": str(Path(folder) / "mesh"),
            "MESH_PORT": "0",
            "MESH_LISTENER_URL": "off",
            "MESH_ADMIN_TOKEN": _TOKEN,
            "OPENAI_API_KEY": "sk-bench",
            **settings,
        }
        with LiveProcess([sys.executable, "-m", "agent_host", "up"], env, timeout=_PATIENCE) as host:
            url = (await asyncio.to_thread(host.wait_for_output, r"agent-host listens on (\S+)"))[1]
            headers = {"authorization": f"Bearer {_TOKEN}"}
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=_PATIENCE, trust_env=False) as operator:
                made = (await operator.post("/workspaces", json={"id": _AGENT})).json()
                started = (await operator.post(f"/workspaces/{_AGENT}/start")).json()
            direct = await Client.connect(started["url"], token=made["token"])
            through = await Client.connect(url, prefix=f"/workspaces/{_AGENT}/api", token=_TOKEN)
            yield host.pid, direct, through
            direct.close()
            through.close()
