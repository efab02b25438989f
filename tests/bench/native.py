"""What Claude's own API adds to a turn: the same turns of one agent with a model of each kind behind the same host."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from agent_testing import FakeAnthropic, ScriptedProvider

from .client import Client
from .gateway import hosted_agent
from .load import TEXT, Samples, new_session, provider_work
from .targets import Live, cpu_of

_TURNS, _WARM = 100, 20
_TOKENS = 100
_STREAM = f"stream:{_TOKENS}:0"


async def native(_live: Live, _provider: str, turns: int = _TURNS, warm: int = _WARM) -> Samples:
    """Turns with the two models alternately, so that a noisy moment hits both: plain ones and ones of 100 tokens."""
    with FakeAnthropic() as claude, ScriptedProvider() as chat, TemporaryDirectory(prefix="bench-") as folder:
        urls = {"claude": claude.url, "chat": chat.url}
        models = Path(folder) / "models.yaml"
        models.write_text(_catalog(urls))
        samples: Samples = {f"{name} {what}": [] for name in urls for what in ("turn", "tokens", "cpu")}
        async with hosted_agent(MESH_MODELS=str(models)) as (host, client, _):
            process = psutil.Process(host)
            for number in range(-warm, turns):
                for name in sorted(urls, reverse=bool(number % 2)):
                    before = cpu_of(process)
                    took = await _turn(client, name, urls[name], TEXT)
                    cpu = (cpu_of(process) - before) * 1000
                    streamed = await _turn(client, name, urls[name], _STREAM)
                    if number >= 0:
                        samples[f"{name} turn"].append(took)
                        samples[f"{name} cpu"].append(cpu)
                        samples[f"{name} tokens"].append(streamed)
    for what in ("turn", "tokens", "cpu"):
        one, other = (median(samples[f"{name} {what}"]) for name in urls)
        samples[f"added {what}"] = [one - other]
    return samples


def _catalog(urls: dict[str, str]) -> str:
    kinds = {"claude": {"kind": "anthropic"}, "chat": {}}
    providers = {name: {**kinds[name], "base_url": url, "api_key_env": "OPENAI_API_KEY"} for name, url in urls.items()}
    models = {"claude": {"provider": "claude", "model": "claude-sonnet-5-5"}, "chat": {"provider": "chat"}}
    return json.dumps({"providers": providers, "models": {**models, "default": models["chat"]}})


async def _turn(client: Client, model: str, provider: str, message: str) -> float:
    """Milliseconds of a turn in a new session, without the provider's own."""
    _, before = await provider_work(provider)
    reply = await client.post("/chat", {"message": message, "session_id": new_session(), "model": model})
    if reply.status != 200:
        raise RuntimeError(f"the agent answered {reply.status}: {reply.body[:500]!r}")
    _, after = await provider_work(provider)
    return (reply.wall - (after - before)) * 1000
