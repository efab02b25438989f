"""The double in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable

from ..provider import ProviderThread, Reply, Script, Step
from .server import AnthropicServer


class FakeAnthropic(ProviderThread):
    """Anthropic's Messages API on a loopback port, by the same steps as `ScriptedProvider`.

        with FakeAnthropic([Call("read", {"path": "a.txt"}), Say("It says hello.", reasoning="I see.")]) as api:
            client = AsyncAnthropic(base_url=api.url, api_key="any")

    With `api_key` any other key is refused. `steps` and `otherwise` are those of `Script`.
    """

    def __init__(
        self,
        steps: Iterable[Step] | Reply | None = None,
        *,
        otherwise: Step | Reply | None = None,
        api_key: str | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(AnthropicServer(Script(steps, otherwise), api_key), port)

    @property
    def url(self) -> str:
        """The base URL, `http://127.0.0.1:PORT`, without `/v1`, as the package `anthropic` takes it."""
        return super().url.removesuffix("/v1")
