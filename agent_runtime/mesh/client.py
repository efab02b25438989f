"""The mesh for skills: chat and embeddings. These calls are not streamed and use the `openai` client."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from agent_common.net import http_client
from agent_common.protocol import ModelCard, is_object

from ..errors import MeshUnavailable
from ..ports import ModelMeter, OpenGate, SideEffectGate
from .catalog import ModelCatalog
from .usage import usage_of, with_cost

if TYPE_CHECKING:
    import httpx
    from openai import AsyncOpenAI

TIMEOUT_SECONDS = 120.0
CHAT_OPTIONS = frozenset({"model", "temperature", "top_p", "max_tokens", "stop", "seed", "response_format"})
"""Options of `chat` that are passed on; any other one is refused."""
MESSAGE_MEMBERS = ("role", "content", "name")
"""The fields that a message may have."""
TEXT_PART_EXAMPLE = "{'type': 'text', 'text': '...'}"


class MeshClient:
    """Implements ports.Mesh."""

    def __init__(
        self, url: str, token: str | None, model: str, catalog: ModelCatalog, gate: SideEffectGate | None = None
    ) -> None:
        self._url, self._token, self._model, self._catalog = url, token, model, catalog
        self._gate = gate or OpenGate()
        self._http: httpx.AsyncClient | None = None
        self._openai: AsyncOpenAI | None = None
        self._lock = asyncio.Lock()

    async def models(self) -> Sequence[ModelCard]:
        return await self._catalog.models()

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], meter: ModelMeter | None = None, /, **options: Any
    ) -> dict[str, Any]:
        """Return one completion as `{content, finish_reason, usage}`. Raises ToolFailure if the meter refuses the
        call."""
        if unknown := sorted(set(options) - CHAT_OPTIONS):
            raise MeshUnavailable(f"chat has no option {unknown[0]!r}; it takes {', '.join(sorted(CHAT_OPTIONS))}")
        _require_list("messages", messages, dict, "objects such as {'role': 'user', 'content': '...'}")
        _require_text_only(messages)
        client = await self._client()
        body = {"model": self._model, **options, "messages": list(messages)}
        raw = await self._metered("/chat/completions", body, client, meter)
        with _answer_expected():
            choice = raw["choices"][0]
            return {
                "content": choice["message"].get("content") or "",
                "finish_reason": choice.get("finish_reason"),
                "usage": raw.get("usage") or {},
            }

    async def embed(
        self, texts: Sequence[str], meter: ModelMeter | None = None, /, *, model: str | None = None
    ) -> list[list[float]]:
        _require_list("texts", texts, str, "texts")
        client = await self._client()
        body = {"model": model or self._model, "input": list(texts)}
        raw = await self._metered("/embeddings", body, client, meter)
        with _answer_expected():
            return [entry["embedding"] for entry in raw["data"]]

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def _metered(self, path: str, body: dict[str, Any], client: AsyncOpenAI, meter: ModelMeter | None) -> Any:
        """Call a model and charge its usage to the meter, if there is one."""
        model = body["model"]
        if meter is not None:
            await meter.check_budget(model)
        raw = await self._call(client.post(path, cast_to=object, body=body))
        if meter is not None and is_object(raw) and is_object(report := raw.get("usage")):
            card = await self._catalog.card(model)
            meter.spend(with_cost(usage_of(report), card.pricing if card else None))
        return raw

    async def _call(self, call: Any) -> Any:
        from openai import OpenAIError

        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._gate.wait_open()
        except TimeoutError:
            call.close()
            raise MeshUnavailable("the channel to the host is broken; model calls are suspended") from None
        except BaseException:
            call.close()
            raise
        try:
            return await call
        except OpenAIError as error:
            raise MeshUnavailable(f"the mesh at {self._url} refused: {error}") from error
        except ValueError as error:
            raise MeshUnavailable("the mesh answered something that is not JSON") from error

    async def _client(self) -> AsyncOpenAI:
        """Import `openai` on first use, off the event loop: it takes half a second and 30 MiB."""
        async with self._lock:
            if self._openai is None:
                await asyncio.to_thread(importlib.import_module, "openai")
                from openai import AsyncOpenAI

                self._http, base = http_client(self._url, timeout=TIMEOUT_SECONDS)
                self._openai = AsyncOpenAI(
                    base_url=base,
                    api_key=self._token or "none",
                    http_client=self._http,  # pyright: ignore[reportArgumentType]  it takes httpx clients too
                    max_retries=0,
                )
            return self._openai


def _require_list(name: str, given: object, kind: type, what: str) -> None:
    """Check the type of a skill's argument. A plain text is refused too: as a sequence it would be sent letter by
    letter."""
    if not isinstance(given, list | tuple) or not all(isinstance(one, kind) for one in given):  # pyright: ignore[reportUnknownVariableType]
        raise MeshUnavailable(f"{name}: must be a list of {what}")


def _require_text_only(messages: Sequence[Mapping[str, Any]]) -> None:
    """Allow only text: skills have no network, and a provider would fetch the URL of an image for them."""
    for index, message in enumerate(messages):
        if unknown := [name for name in message if name not in MESSAGE_MEMBERS]:
            raise MeshUnavailable(
                f"messages[{index}].{unknown[0]}: a message of a skill has {', '.join(MESSAGE_MEMBERS)} only"
            )
        content: Any = message.get("content")
        if isinstance(content, str):
            continue
        if not isinstance(content, list):
            raise MeshUnavailable(f"messages[{index}].content: must be text, or a list of {TEXT_PART_EXAMPLE}")
        for number, part in enumerate(cast("list[Any]", content)):
            if part != {"type": "text", "text": _text_of(part)}:
                raise MeshUnavailable(
                    f"messages[{index}].content[{number}]: a skill sends text only: {TEXT_PART_EXAMPLE}"
                )


def _text_of(part: Any) -> str | None:
    text: Any = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else None


@contextlib.contextmanager
def _answer_expected() -> Generator[None]:
    """Convert errors of reading a malformed answer to MeshUnavailable."""
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise MeshUnavailable("the mesh answered something that is not a completion or embeddings") from error
