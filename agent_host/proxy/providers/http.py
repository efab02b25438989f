"""What all providers over HTTP share: the client, and the errors of its connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any

import httpx2

from agent_common.completions import EventSplitter, from_response, read_error_body, read_event
from agent_common.json_reader import run_by_size
from agent_common.net import public_tls

from ...errors import ModelError, ProviderFailed
from ..catalog.catalog import ProviderSpec
from ..json_access import as_object

ALIVE = b": alive\n\n"
"""Stands in a stream for an event that says nothing to the agent, which would else take the provider for silent."""
OPENAI_CODES = {
    "context_overflow": "context_length_exceeded",
    "content_refused": "content_filter",
    "model_quota": "insufficient_quota",
    "model_rate_limited": "rate_limit_exceeded",
    "unknown_model": "model_not_found",
}
"""What an error means -> OpenAI's code for it."""
_EVENT_FIELDS = (b"data:", b"event:", b":")
_QUOTED = 200  # bytes of an answer that our error quotes


def open_client(*, in_process: bool = False) -> httpx2.AsyncClient:
    """Open a client with a pool of connections. `in_process`: no proxy, and a new connection for each call."""
    kept = 0 if in_process else 64
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=kept, keepalive_expiry=30)
    return httpx2.AsyncClient(limits=limits, verify=public_tls(), trust_env=not in_process)


def transport_failed(spec: ProviderSpec, error: BaseException, *, reached: bool) -> ProviderFailed:
    """Return the error for a call whose connection failed. `reached`: an answer had begun."""
    name = f"the provider {spec.name!r}"
    if isinstance(error, httpx2.TimeoutException) and not isinstance(error, httpx2.ConnectTimeout):
        return ProviderFailed(f"{name} was silent for too long", code="provider_timeout")
    code = "provider_dropped" if reached else "provider_unreachable"
    what = "broke off its answer" if reached else "cannot be reached"
    # An error about our own request may quote it with the key, so its text is not passed on.
    why = "" if isinstance(error, httpx2.LocalProtocolError) else str(error)
    return ProviderFailed(f"{name} {what}: {why or type(error).__name__} ({spec.shown_url})", code=code)


def read_refusal(response: httpx2.Response) -> bytes:
    """Return the body of a refusal; in place of one that cannot be decompressed, why."""
    why = _unreadable(response)
    return response.content if why is None else why.encode()


async def is_stream(response: httpx2.Response) -> bool:
    """Whether an answer is a stream of events: by its label, else by how it begins. It is then read as a whole.
    Raises ProviderFailed if it cannot be decompressed."""
    if (why := _unreadable(response)) is not None:
        raise ProviderFailed(why, code="provider_unreadable")
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return True
    return (await response.aread()).lstrip().startswith(_EVENT_FIELDS)


async def stream_texts(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the data of a stream's events; of a document that is only labelled as a stream, the document. Raises
    ProviderFailed for an event that is too long."""
    splitter = EventSplitter()
    try:
        async for data in response.aiter_bytes():
            for text in splitter.feed(data):
                yield text
        for text in splitter.finish():
            yield text
    except ModelError as error:
        raise ProviderFailed(error.message, code="provider_unreadable") from error


def read_stream_event(text: bytes) -> dict[str, Any] | None:
    """Return an event of a stream, mended as the agent mends it; None for the mark of an end. Raises ProviderFailed."""
    try:
        return read_event(text)
    except ModelError as error:
        raise ProviderFailed(f"the provider's stream is not JSON: {text[:_QUOTED]!r}") from error


async def read_answer(
    response: httpx2.Response, member: str, failure: Callable[[dict[str, Any]], ProviderFailed]
) -> dict[str, Any]:
    """Return an answer that is one document with a list under `member`. Raises the `failure` for one that holds an
    error, and ProviderFailed for anything else, such as the page of a gateway."""
    if (why := _unreadable(response)) is not None:
        raise ProviderFailed(why, code="provider_unreadable")
    content = await response.aread()
    quoted = f"{content[:_QUOTED].decode('utf-8', 'replace')!r}"
    try:
        answer = await run_by_size(len(content), partial(read_event, content)) or {}
    except ModelError as error:
        raise ProviderFailed(f"the provider answered {response.status_code} without JSON: {quoted}") from error
    if as_object(answer.get("error")):
        raise failure(answer)
    if not isinstance(answer.get(member), list):
        raise ProviderFailed(f"the provider answered {response.status_code} without {member!r}: {quoted}")
    return answer


def refuses_key(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether an answer says that the key is wrong. A 400 or 403 may also be about what was asked, and a 401 about what
    the account has used."""
    if status not in (400, 401, 403):
        return False
    code = from_response(status, headers, body).code
    return code == "model_auth" or (status == 401 and code != "model_quota")


_ASKED_BY_UP = {"OPENAI_API_KEY": "openai-compatible", "ANTHROPIC_API_KEY": "anthropic"}
"""`agent up` keeps these keys itself: a variable in its environment alone changes nothing."""


def key_refused(spec: ProviderSpec, status: int, body: bytes) -> ProviderFailed:
    """Return the error for a refused key, which to the agent would mean that its own token is wrong. It quotes the
    provider's words, but not the key, which some of them repeat."""
    refused = "refused the host's key" if spec.api_key else "requires a key, and the host has none"
    words = read_error_body(body).message
    words = (words.replace(spec.api_key, "***") if spec.api_key else words)[:_QUOTED]
    remedy = f"the operator must set {spec.set_by} to a valid key"
    if provider := _ASKED_BY_UP.get(spec.set_by):
        remedy += f"; where `agent up` has started the host: `agent down`, then `agent up --provider {provider}`"
    text = f"the provider {spec.name!r} {refused} (HTTP {status}: {words}); {remedy}"
    return ProviderFailed(text, code="provider_auth")


def _unreadable(response: httpx2.Response) -> str | None:
    """Return why an answer was left compressed: nobody has asked for that. None: it can be read."""
    readable = (*response.request.headers.get("accept-encoding", "").split(", "), "", "identity", "none", "utf-8")
    codings = [coding.strip().lower() for coding in response.headers.get("content-encoding", "").split(",")]
    unknown = next((coding for coding in codings if coding not in readable), None)
    if unknown is None:
        return None
    return f"the provider compresses its answer as {unknown}, which was not asked for and cannot be read"
