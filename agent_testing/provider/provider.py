"""The scripted provider for tests: an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Iterable

from agent_common.protocol import ModelCard

from .script import Reply, Script
from .server import ProviderServer
from .steps import Raw, Step
from .thread import ProviderThread


class ScriptedProvider(ProviderThread):
    """An OpenAI-compatible endpoint that answers by a script.

        with ScriptedProvider([Call("read", {"path": "a.txt"}), Say("It says hello.")]) as provider:
            client = AsyncOpenAI(base_url=provider.url, api_key="none")

    `steps` and `otherwise` are those of `Script`; `models` are what `/v1/models` lists, or the
    response that it gives; `port` 0 is any free one.
    """

    def __init__(
        self,
        steps: Iterable[Step] | Reply | None = None,
        *,
        otherwise: Step | Reply | None = None,
        models: Iterable[ModelCard | str] | Raw = ("default",),
        port: int = 0,
    ) -> None:
        super().__init__(ProviderServer(Script(steps, otherwise), models), port)
