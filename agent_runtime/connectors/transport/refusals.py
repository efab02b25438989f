"""Explain answers whose status is an error, among them those that say that our session is not known any more.

The body of such an answer is replaced by a JSON-RPC error with the reason, so that the refused request fails with it.
Imported only when a remote server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses as phrases
from typing import Any, cast

from agent_common.json_reader import JsonRefused, read_json

from ..rate_limit import JSON_LIMITS
from ..tools.schemas import plain_text

REFUSAL_STATUSES = frozenset({401, 403})
REFUSED_CODE = -31401
"""The code of the error, outside the range that JSON-RPC reserves."""
UNKNOWN_SESSION_CODE = -31404
UNKNOWN_SESSION = "it does not know our session any more"
INTERNAL_ERROR = -32603
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_SAYS_LITTLE = (None, -32000, -32600)
"""Codes with which servers refuse a request for any reason."""
_SESSION_CODES = frozenset({-32000, -32001, -32002, -32600})
_SESSION = r"(?:\b|_)session(?:[ _-]?id)?\b[^.;,]{0,60}"
_SESSION_LOST = re.compile(
    rf"{_SESSION}(?:not found|not valid|not exist|unknown|invalid)"
    r"|\b(?:invalid|unknown|missing|no(?: such| valid)?) (?:mcp[ _-]?)?session",
    re.IGNORECASE,
)
_SESSION_OVER = re.compile(
    rf"{_SESSION}(?:expired|terminated)|(?:expired|terminated) (?:mcp[ _-]?)?session", re.IGNORECASE
)
_SESSION_STATUSES = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
"""Those with which servers refuse a session before they look at the request."""
_MCP_SESSION = re.compile(r"\bmcp[ _-]?session", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"""[\s"'`(){}\[\],;!]+""")
_LOSS_WORD = re.compile(
    r"|mcp|session|(?:session[_-]?)?id|header|http|status|code|detail|message|the|a|is|was|has|been|does|or"
    r"|no|not|such|valid|invalid|unknown|missing|found|exist|expired|terminated|provided|given|please|(?:re-?)?initialize"
    r"|bad|request|gateway|unauthorized|forbidden|gone|internal|server|error|4\d\d|(?=.*\d)[\w.:~+/=-]{5,100}",
    re.IGNORECASE,
)
"""A word of a text that says only that a session is lost; the last is its identity, or the code of an error."""
_LOSS_TEXT_LIMIT = 300
_ABOUT_SESSION = re.compile(
    r"\bsession(?:[ -]?id)?\b|\bmcp[ _-]session|not (?:yet |been )?initiali[sz]ed", re.IGNORECASE
)
_NOT_BEGUN = re.compile(
    r"(?:unexpected message, )?expect(?:ed|s)?(?: an?)? initiali[sz]ed? request"
    r"|(?:bad request: )?(?:mcp |the )?(?:server|session) (?:is |was |has )?not (?:yet |been )*initiali[sz]ed"
    r"|received (?:a )?request before initiali[sz]ation(?: was complete)?",
    re.IGNORECASE,
)
"""The whole text of a refusal by a server that wants `initialize` first."""
_SAYS_NOTHING = re.compile(r"(?:400 )?(?:(?:bad|invalid) request\.?)?", re.IGNORECASE)
WRONG_CREDENTIALS = "it refused our credentials; the operator must renew them"
NO_CREDENTIALS = (
    'it wants credentials, and none are configured: add "headers": {"Authorization": "Bearer ${NAME}"}, or "oauth"'
)
_SCOPE = re.compile(r'\bscope="([^"]*)"')


def refusal_reason(status: int, headers: Mapping[str, str], *, credentials: bool) -> str:
    """Explain a refusal by its status and headers. `credentials`: whether any are configured."""
    challenge = headers.get("www-authenticate", "")
    if status == 403 and "insufficient_scope" in challenge:
        scope = _SCOPE.search(challenge)
        wanted = f"the scope {plain_text(scope[1])!r}" if scope else "a wider scope"
        return f"it wants {wanted}, which our credentials do not have; the operator must get new ones with it"
    if credentials:
        return WRONG_CREDENTIALS
    return NO_CREDENTIALS if status == 401 else "it answered 403 Forbidden, and no credentials are configured"


def error_body(reason: str, code: int = REFUSED_CODE) -> bytes:
    """Return a JSON-RPC error with the reason, as the body of the answer to any request."""
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}}).encode()


def is_session_unknown(status: int, body: bytes) -> bool:
    """Return whether a server that was shown our session answers so because it does not know it.

    The protocol asks for 404. Many servers answer 400, with words about the session or without words, and others any
    status, with words that say only this, or name the session of MCP. Other words are about the request: a tool may
    speak so of its own session elsewhere, after it has run.
    """
    error = _rpc_error(body)
    code, words = (None, _excerpt(body)) if error is None else (error.get("code"), str(error.get("message")))
    if _NOT_BEGUN.fullmatch(words.strip(" .")):
        return True
    if status not in _SESSION_STATUSES and not _is_about_our_session(words):
        return False
    lost = _SESSION_LOST.search(words)
    over = _SESSION_OVER.search(words)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return bool(lost and not over)
    lost = lost or over
    if code in (_METHOD_NOT_FOUND, _INVALID_PARAMS):
        return bool(lost and "_" not in words)  # else it is the name of an argument
    if lost or status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return True
    says_nothing = code in _SAYS_LITTLE and _SAYS_NOTHING.fullmatch(words)
    return status == HTTPStatus.BAD_REQUEST and bool(_ABOUT_SESSION.search(words) or says_nothing)


def is_session_error(code: int, message: str) -> bool:
    """Return whether an error that came with 200 to a request with our session says that the server does not know it:
    by a code of the server's own, as a tool that has failed has another, and by words that say nothing else."""
    return code in _SESSION_CODES and is_session_unknown(HTTPStatus.OK, error_body(message, code))


def _is_about_our_session(words: str) -> bool:
    """Return whether a text names the session of MCP, or says no more than that a session is lost."""
    if _MCP_SESSION.search(words):
        return True
    parts = _BETWEEN_WORDS.split(words[:_LOSS_TEXT_LIMIT])
    return len(words) <= _LOSS_TEXT_LIMIT and all(_LOSS_WORD.fullmatch(part.rstrip(":.")) for part in parts)


def explain_status(status: int, body: bytes) -> bytes:
    """Return the body to give to the session for an answer with this error status: the server's own JSON-RPC error, or
    one that names the status."""
    if _rpc_error(body) is not None:
        return body
    excerpt = _excerpt(body)
    text = f"it answered {status} {phrases.get(status, '')}".rstrip() + (f": {excerpt}" if excerpt else "")
    return error_body(text, _METHOD_NOT_FOUND if status == HTTPStatus.NOT_FOUND else INTERNAL_ERROR)


def _excerpt(body: bytes) -> str:
    """Return the first words of a body, or nothing if it is a page."""
    return "" if b"<" in body[:200] else plain_text(body.decode(errors="replace"))


def _rpc_error(body: bytes) -> Mapping[str, Any] | None:
    """Return the error of a JSON-RPC answer, or None if the body is none."""
    try:
        found: Any = read_json(body, JSON_LIMITS)
    except JsonRefused:
        return None
    error: Any = cast("Mapping[str, Any]", found).get("error") if isinstance(found, dict) else None
    return cast("Mapping[str, Any]", error) if isinstance(error, dict) and "code" in error else None
