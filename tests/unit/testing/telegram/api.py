"""Calls of the Bot API by plain HTTP."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from agent_testing import FakeTelegram
from agent_testing.telegram import User


class Api:
    """A bot that calls by plain HTTP; parameters are members of a JSON body."""

    def __init__(self, telegram: FakeTelegram) -> None:
        transport = httpx.HTTPTransport(verify=False)  # plain HTTP: nothing to verify
        self._client = httpx.Client(base_url=f"{telegram.url}/bot{telegram.token}", transport=transport, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def answer(self, method: str, **parameters: Any) -> httpx.Response:
        return self._client.post(f"/{method}", json=parameters)

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a call that succeeds."""
        body = self.answer(method, **parameters).json()
        assert body["ok"], body
        return body["result"]

    def refusal(self, method: str, **parameters: Any) -> tuple[int, str]:
        """Status and description of a call that is refused."""
        answer = self.answer(method, **parameters)
        body = answer.json()
        assert body["ok"] is False
        assert body["error_code"] == answer.status_code
        return answer.status_code, body["description"]

    def updates(self, offset: int = 0, timeout: int = 0, **more: Any) -> list[dict[str, Any]]:
        return self.call("getUpdates", offset=offset, timeout=timeout, **more)


def acquainted(telegram: FakeTelegram, name: str = "Ann") -> User:
    """A person who has written to the bot."""
    user = telegram.create_user(name, username=f"{name.lower()}_x")
    user.write(user.chat, "/start")
    return user
