"""A double of Discord whose limits no test reaches, and a bot that is nothing but an HTTP client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent_testing.discord import FakeDiscord, RateLimits


class RawBot:
    """Calls the REST API as a bot."""

    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake
        headers = {"Authorization": f"Bot {fake.bot.token}"}
        transport = httpx.HTTPTransport(verify=False)  # plain HTTP: nothing to verify
        url = fake.url + "/api/v10"
        self.http = httpx.Client(base_url=url, transport=transport, headers=headers, trust_env=False, timeout=60)

    def call(self, method: str, path: str, json: Any = None, status: int = 200, **more: Any) -> Any:
        """The body of an answer that must have the status."""
        response = self.http.request(method, path, json=json, **more)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def send(self, channel: Any, text: str = "hello", **fields: Any) -> Any:
        return self.call("POST", f"/channels/{channel.id}/messages", {"content": text, **fields})

    def refused(self, method: str, path: str, json: Any = None, **more: Any) -> tuple[int, int]:
        """Status and code of an answer that refuses."""
        response = self.http.request(method, path, json=json, **more)
        assert response.status_code >= 400, response.text
        return response.status_code, response.json().get("code", 0)


@pytest.fixture
def fake() -> Iterator[FakeDiscord]:
    with FakeDiscord(limits=RateLimits.loose()) as fake:
        yield fake


@pytest.fixture
def bot(fake: FakeDiscord) -> Iterator[RawBot]:
    raw = RawBot(fake)
    with raw.http:
        yield raw
