"""What skills may ask of the mesh: chat and embeddings, not streamed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

from pydantic_core import to_json

from agent_common.completions import (
    CompletionReader,
    TextPiece,
    TextWasReasoning,
    find_report,
    read_error_body,
    read_usage,
    with_cost,
)
from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async
from agent_common.net import HttpPool, TransportFault
from agent_common.protocol import ModelCard, is_object

from ..errors import MeshUnavailable, ModelError
from ..ports import ModelMeter, OpenGate, SideEffectGate
from .catalog import ModelCatalog
from .skill_requests import RefusedRequest, checked_body

TIMEOUT_SECONDS = 120.0
"""Seconds without a byte after which a request fails."""
ANSWER_LIMITS = JsonLimits(32 * 1024 * 1024, max_values=2_000_000, refuse_ambiguous=False)
"""Many long vectors in one answer."""
CHAT_OPTIONS = frozenset({"model", "temperature", "top_p", "max_tokens", "stop", "seed", "response_format"})
"""Options of `chat` that are passed on; any other one is refused."""
MESSAGE_MEMBERS = ("role", "content", "name")
"""The fields that a message may have."""
TEXT_PART_EXAMPLE = "{'type': 'text', 'text': '...'}"


class MeshClient:
    """Implements ports.Mesh."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        model: str,
        catalog: ModelCatalog,
        gate: SideEffectGate | None = None,
    ) -> None:
        self._url = url
        self._model = model
        self._catalog = catalog
        self._gate = gate or OpenGate()
        self._http = HttpPool(
            url,
            {"content-type": "application/json", "accept-encoding": "identity", **headers},
            read_timeout=TIMEOUT_SECONDS,
        )

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
        body = {**options, "model": options.get("model") or self._model, "messages": list(messages)}
        raw = await self._metered("/chat/completions", body, meter)
        with _answer_expected():
            choice = raw["choices"][0]
            usage = find_report(raw) or {}
            if not is_object(choice["message"]):
                raise TypeError("a choice without a message")
            return {"content": _text(raw), "finish_reason": choice.get("finish_reason"), "usage": usage}

    async def embed(
        self, texts: Sequence[str], meter: ModelMeter | None = None, /, *, model: str | None = None
    ) -> list[list[float]]:
        _require_list("texts", texts, str, "texts")
        body = {"model": model or self._model, "input": list(texts)}
        raw = await self._metered("/embeddings", body, meter)
        with _answer_expected():
            return [entry["embedding"] for entry in raw["data"]]

    async def request(self, path: str, body: Any, meter: ModelMeter | None = None, /) -> dict[str, Any]:
        """Return the answer to a request of OpenAI's own form as `{status, body}`. Raises ToolFailure if the meter
        refuses the call."""
        try:
            checked = checked_body(path, body, self._model)
        except RefusedRequest as refusal:
            error = {"message": str(refusal), "type": "invalid_request_error", "param": None, "code": "not_allowed"}
            return {"status": 400, "body": {"error": error}}
        if meter is not None:
            await meter.check_budget(checked["model"])
        status, answer = await self._exchange(f"/{path}", checked)
        raw = await self._read(answer)
        if status < 300:
            await self._spend(raw, checked["model"], meter)
        return {"status": status, "body": raw}

    async def close(self) -> None:
        await self._http.close()

    async def _metered(self, path: str, body: dict[str, Any], meter: ModelMeter | None) -> Any:
        """Call a model and charge its usage to the meter, if there is one."""
        model = body["model"]
        if not isinstance(model, str):
            raise MeshUnavailable("model: must be text")
        if meter is not None:
            await meter.check_budget(model)
        status, answer = await self._exchange(path, body)
        if not 200 <= status < 300:
            message = read_error_body(answer).message
            raise MeshUnavailable(f"the mesh at {self._url} refused: {status}: {message}")
        raw = await self._read(answer)
        await self._spend(raw, model, meter)
        return raw

    async def _spend(self, raw: Any, model: str, meter: ModelMeter | None) -> None:
        if meter is not None and is_object(raw) and (report := find_report(raw)) is not None:
            await self._catalog.fetch_once(model)
            meter.spend(with_cost(read_usage(report), self._catalog.price(model), reported=True))

    async def _exchange(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Return status and body of the answer. Raises MeshUnavailable if there is none."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._gate.wait_open()
        except TimeoutError:
            raise MeshUnavailable("the channel to the host is broken; model calls are suspended") from None
        try:
            async with self._http.request("POST", path, to_json(body)) as reply:
                return reply.status, await reply.body(ANSWER_LIMITS.max_bytes + 1)
        except TransportFault as fault:
            raise MeshUnavailable(f"the mesh at {self._url} cannot be reached: {fault.message}") from fault

    async def _read(self, answer: bytes) -> Any:
        try:
            return await read_json_async(answer, ANSWER_LIMITS)
        except JsonRefused as refusal:
            raise MeshUnavailable(f"the mesh answered something that is not JSON: {refusal}") from refusal


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


def _text(answer: dict[str, Any]) -> str:
    """Return the text of a whole answer, without its reasoning. Raises MeshUnavailable if it is an error."""
    reader = CompletionReader(0, tools=False)
    text = ""
    try:
        for piece in (*reader.feed(answer), *reader.finish()):
            if isinstance(piece, TextPiece):
                text += piece.text
            elif isinstance(piece, TextWasReasoning):
                text = ""
    except ModelError as error:
        raise MeshUnavailable(error.message) from error
    return text


@contextlib.contextmanager
def _answer_expected() -> Generator[None]:
    """Convert errors of reading a malformed answer to MeshUnavailable."""
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise MeshUnavailable("the mesh answered something that is not a completion or embeddings") from error
