"""The double in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable

from ..provider import ProviderThread, Reply, Script, Step
from .server import ResponsesServer


class FakeResponses(ProviderThread):
    """OpenAI's Responses API on a loopback port, by the same steps as `ScriptedProvider`.

        with FakeResponses([Call("read", {"path": "a.txt"}), Say("It says hello.", reasoning="I see.")]) as api:
            client = AsyncOpenAI(base_url=api.url, api_key="any")

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
        super().__init__(ResponsesServer(Script(steps, otherwise), api_key), port)
