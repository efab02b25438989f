"""The double in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable

from ..provider import ProviderThread, Reply, Script, Step
from .dialects import DIALECTS
from .server import StrictServer


class StrictProvider(ProviderThread):
    """Chat completions as one provider speaks them, on a loopback port, by the same steps as `ScriptedProvider`.

        with StrictProvider("gemini", [Call("read", {"path": "a.txt"}), Say("It says hello.")]) as api:
            client = OpenAI(base_url=api.url, api_key="any")

    `dialect` is a name of `DIALECTS`; `steps` and `otherwise` are those of `Script`.
    """

    def __init__(
        self,
        dialect: str,
        steps: Iterable[Step] | Reply | None = None,
        *,
        otherwise: Step | Reply | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(StrictServer(DIALECTS[dialect], Script(steps, otherwise)), port)
