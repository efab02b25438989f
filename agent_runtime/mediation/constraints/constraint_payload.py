"""The payload of constraints: find its bytes, check its hash, and parse it."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_common.protocol import NewRule, Rule, is_object
from agent_common.protocol.work import Constraints, ConstraintsPayload, FrameFault, decode, payload_hash

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_INSTRUCTION_CHARACTERS = 16 * 1024
"""Maximum characters of instructions, which are shown to the model."""
INLINE = "inline"


class InvalidConstraints(Exception):
    """Raised for constraints that cannot be applied. `code` is stable."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    instructions: str = Field(default="", max_length=MAX_INSTRUCTION_CHARACTERS)
    rules: list[NewRule] = Field(default_factory=list[NewRule], max_length=200)


@dataclass(frozen=True, slots=True)
class ActiveConstraints:
    """Constraints in force; they are replaced as a whole."""

    version: int = 0
    hash: str = ""
    instructions: str = ""
    rules: tuple[Rule, ...] = ()


def parse_constraints(constraints: Constraints, raw: bytes) -> ActiveConstraints:
    """Check and parse the payload. Raises InvalidConstraints."""
    found = payload_hash(raw)
    if found != constraints.hash:
        text = f"the payload of version {constraints.version} has the hash {found}, not {constraints.hash[:100]}"
        raise InvalidConstraints("constraints_hash_mismatch", text)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidConstraints("constraints_invalid", f"the payload is not UTF-8 at byte {error.start}") from error
    payload = _parse_payload(text)
    rules = tuple(Rule(**rule.model_dump()) for rule in payload.rules)
    return ActiveConstraints(constraints.version, found, payload.instructions, rules)


def decode_payload(payload: ConstraintsPayload) -> bytes:
    """Return the payload sent over the channel. Raises InvalidConstraints."""
    try:
        raw = base64.b64decode(payload.b64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidConstraints("constraints_invalid", f"b64: {error}") from error
    if len(raw) > MAX_PAYLOAD_BYTES:
        raise InvalidConstraints("constraints_invalid", f"b64: the payload is larger than {MAX_PAYLOAD_BYTES} bytes")
    return raw


def read_payload_file(ref: str, folder: Path) -> bytes:
    """Return the content of a file in `folder`, named by the host, which must not make us read the agent's or the
    system's files. Raises InvalidConstraints."""
    path = _path(ref)
    if ref == INLINE or path is None:
        raise InvalidConstraints(
            "constraints_missing", f"payload_ref {ref[:200]!r}: send constraints_payload before it"
        )
    root = folder.resolve()
    path = (folder / path).resolve()
    if not path.is_relative_to(root):
        text = f"payload_ref {ref[:200]!r}: only files in {folder} are read; send constraints_payload before it"
        raise InvalidConstraints("constraints_missing", text)
    return _bytes(path)


def read_relative_payload(ref: str, folder: Path) -> bytes:
    """Return the content of a file named by the operator, relative to `folder`. Raises InvalidConstraints."""
    path = _path(ref)
    if path is None:
        raise InvalidConstraints("constraints_missing", f"payload_ref {ref[:200]!r} is not a path")
    return _bytes(folder / path)


def _path(ref: str) -> Path | None:
    return None if "\0" in ref else Path(ref.removeprefix("file://"))


def _bytes(path: Path) -> bytes:
    """Read a regular file; reading anything else might never end. Raises InvalidConstraints."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise InvalidConstraints("constraints_missing", f"payload {path} is not a regular file")
            raw = opened.read(MAX_PAYLOAD_BYTES + 1)
    except OSError as error:
        raise InvalidConstraints("constraints_missing", f"payload {path} cannot be read: {error.strerror}") from error
    if len(raw) > MAX_PAYLOAD_BYTES:
        raise InvalidConstraints("constraints_invalid", f"payload {path} is larger than {MAX_PAYLOAD_BYTES} bytes")
    return raw


def _parse_payload(text: str) -> _Payload:
    """Parse the payload. Anything but an object with our fields is taken as instructions, because there is no standard
    format of rules."""
    try:
        value: Any = decode(text.strip().encode())
    except FrameFault:
        return _instructions_only(text.strip())
    if not is_object(value) or not value.keys() & {"instructions", "rules"}:
        return _instructions_only(text.strip())
    try:
        return _Payload.model_validate({name: one for name, one in value.items() if name in _Payload.model_fields})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidConstraints("constraints_invalid", f"payload: {where}: {first['msg']}") from error


def _instructions_only(text: str) -> _Payload:
    """Return the whole text as instructions; it is never cut, because the acknowledged text must be what the model
    sees."""
    if len(text) > MAX_INSTRUCTION_CHARACTERS:
        raise InvalidConstraints(
            "constraints_invalid", f"payload: has {len(text)} characters, and {MAX_INSTRUCTION_CHARACTERS} can be shown"
        )
    return _Payload(instructions=text)
