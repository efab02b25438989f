"""The parameters of a call: from the query, a form, a JSON body, or a multipart body with files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.datastructures import UploadFile
from starlette.requests import Request

from .api_error import ApiError, bad_request

MOST_UPLOAD_BYTES = 50 * 1024 * 1024
_MOST_BODY_BYTES = MOST_UPLOAD_BYTES + 1024 * 1024
_TRUE = frozenset(("true", "yes", "1"))


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart body."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters as text, whatever their type, and files."""

    texts: Mapping[str, str]
    files: Mapping[str, Upload] = field(default_factory=dict[str, Upload])

    def text(self, name: str) -> str:
        """Return a parameter, or an empty string."""
        return self.texts.get(name, "")

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in _TRUE

    def integer(self, name: str, otherwise: int = 0) -> int:
        """Return a number; what is not one counts as 0, as it does at Telegram."""
        if not (text := self.text(name)):
            return otherwise
        try:
            return int(text)
        except ValueError:
            return 0

    def json(self, name: str, what: str) -> Any:
        """Return a parameter that is JSON; None if it is missing. Raises ApiError that says that `what` is broken."""
        if not (text := self.text(name)):
            return None
        try:
            return _decoded(text)
        except ValueError:
            raise bad_request(f"can't parse {what} JSON object") from None

    def upload(self, name: str) -> Upload | None:
        """Return the file of a parameter, which is its own part or is named as `attach://PART`."""
        return self.files.get(self.text(name).removeprefix("attach://")) or self.files.get(name)


async def read_parameters(request: Request) -> Parameters:
    """Read a request's parameters. Raises ApiError if the body is too large or is not what its type says."""
    if int(request.headers.get("content-length", "0")) > _MOST_BODY_BYTES:
        raise ApiError(413, "Request Entity Too Large")
    texts = dict(request.query_params)
    files = dict[str, Upload]()
    if request.headers.get("content-type", "").startswith("application/json"):
        texts |= _members(await request.body())
        return Parameters(texts)
    async with request.form(max_part_size=_MOST_BODY_BYTES) as form:
        for name, value in form.items():
            if isinstance(value, UploadFile):
                content = await value.read()
                files[name] = Upload(value.filename or "file", value.content_type or "", content)
            else:
                texts[name] = value
    if any(len(file.content) > MOST_UPLOAD_BYTES for file in files.values()):
        raise ApiError(413, "Request Entity Too Large")
    return Parameters(texts, files)


def _decoded(text: str | bytes) -> Any:
    """Decode JSON. Raises ValueError, and ApiError if a string has half a surrogate pair."""
    decoded = json.loads(text)
    try:
        json.dumps(decoded, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    return decoded


def _members(body: bytes) -> dict[str, str]:
    try:
        decoded = _decoded(body or b"{}")
    except ValueError:
        raise bad_request("can't parse JSON object") from None
    if not isinstance(decoded, dict):
        raise bad_request("JSON object expected")
    members = cast(dict[str, Any], decoded)
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in members.items()
        if value is not None
    }
