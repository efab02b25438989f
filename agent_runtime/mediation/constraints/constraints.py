"""Constraints: the rules that a host gives its agent (docs/reference/mediation.md#constraints).

They come in a file of the image or over the channel. In both cases the hash is that of the payload's raw bytes, and the
version is acknowledged only once it is in force. The payload is text for the agent, or a JSON object `{"instructions":
"...", "rules": [{"permission", "pattern", "action"}]}` with rules for every later call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_common import disk
from agent_common.protocol import Rule
from agent_common.protocol.authority import Layer
from agent_common.protocol.work import Constraints, ConstraintsPayload, FrameFault, Severity, decode, read_frame
from agent_common.telemetry import logger

from ...errors import StartError
from ...ports import Note, NoteContext
from .constraint_payload import (
    MAX_PAYLOAD_BYTES,
    ActiveConstraints,
    InvalidConstraints,
    decode_payload,
    parse_constraints,
    read_payload_file,
    read_relative_payload,
)

log = logger(__name__)
URGENT: frozenset[Severity] = frozenset({"HIGH", "CRITICAL"})
DEFAULT_PAYLOAD_FOLDER = Path("/agent")
"""Folder of payloads that the host names by file, if no constraints file is set
(docs/protocols/mediation.md#21-shapes)."""
_ANYTHING = Rule(permission="*", pattern="*", action="allow")


@dataclass(frozen=True, slots=True)
class PushedConstraints:
    """Constraints received over the channel."""

    constraints: Constraints
    payload: ConstraintsPayload | None = None

    @property
    def urgent(self) -> bool:
        """Whether no work may continue under the old constraints."""
        return self.payload is not None and self.payload.severity in URGENT


@dataclass(slots=True)
class ConstraintService:
    """Holds the constraints in force. Those received over the channel are stored in `folder` for the next process."""

    folder: Path
    file: Path | None = None
    active: ActiveConstraints = field(default_factory=ActiveConstraints)
    fault: str | None = None
    """Why required constraints are missing; no work is accepted then. None: no fault."""
    _payload: ConstraintsPayload | None = None
    """The payload for the Constraints frame that follows."""
    _apply_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _apply_task: asyncio.Task[ActiveConstraints] | None = None

    def load(self) -> None:
        """Load the newer of the image's and the stored constraints. An unusable file is recorded in `fault`, because
        the runtime must stay able to receive better ones. Raises StartError if the stored ones are damaged."""
        try:
            if self.file is not None:
                self.active = _read(self.file)
        except InvalidConstraints as error:
            self.fault = str(error)
            log.error("the constraints cannot be used", error=str(error), file=str(self.file))
        kept = self.folder / "constraints.json"
        if kept.exists():
            try:
                found = _read(kept)
            except InvalidConstraints as error:
                raise StartError(f"{kept}: {error}; remove the file to have the host send them again") from error
            if found.version > self.active.version or self.fault:
                self.active = found
                self.fault = None

    def receive_payload(self, payload: ConstraintsPayload) -> None:
        """Keep the payload for the Constraints frame that follows."""
        self._payload = payload

    def match_payload(self, constraints: Constraints) -> PushedConstraints:
        """Combine the frame with the payload sent before it, if their versions match."""
        payload = self._payload
        self._payload = None
        fits = payload is not None and payload.version == constraints.version
        return PushedConstraints(constraints, payload if fits else None)

    async def apply(self, pushed: PushedConstraints) -> ActiveConstraints:
        """Put the constraints into force and store them. Calls are serialized, and cancelling the caller does not
        interrupt a change. Raises InvalidConstraints and OSError; the old ones then stay in force."""
        async with self._apply_lock:
            if self._apply_task is not None:  # started by a caller that was cancelled
                await asyncio.wait([self._apply_task])
            self._apply_task = asyncio.create_task(self._apply(pushed), name="mediation constraints")
            self._apply_task.add_done_callback(lambda swap: swap.cancelled() or swap.exception())
            return await asyncio.shield(self._apply_task)

    def layer(self) -> Layer | None:
        """Return the layer of rules above every agent; None without rules."""
        return Layer(rules=(_ANYTHING, *self.active.rules)) if self.active.rules else None

    async def notes(self, context: NoteContext) -> Sequence[Note]:
        """Implement ports.NoteProvider: show the instructions below every user message."""
        held = self.active
        if not held.instructions:
            return ()
        return (Note("constraints", f"Version {held.version} of the constraints holds: {held.instructions}"),)

    async def _apply(self, pushed: PushedConstraints) -> ActiveConstraints:
        constraints = pushed.constraints
        payload = pushed.payload
        self._check(constraints)
        if payload is not None:
            raw = decode_payload(payload)
        else:
            folder = self.file.parent if self.file is not None else DEFAULT_PAYLOAD_FOLDER
            raw = await asyncio.to_thread(read_payload_file, constraints.payload_ref, folder)
        found = parse_constraints(constraints, raw)
        if found != self.active:
            await asyncio.to_thread(self._save, constraints, raw)
        self.active = found
        self.fault = None
        return found

    def _check(self, constraints: Constraints) -> None:
        """Refuse older versions, and other content under the same version. Raises InvalidConstraints."""
        if constraints.version < self.active.version:
            why = f"version {constraints.version} is older than {self.active.version}, which holds: send a higher one"
            raise InvalidConstraints("constraints_stale", why)
        if self.active.hash and constraints.version == self.active.version and constraints.hash != self.active.hash:
            why = (
                f"version {constraints.version} holds with the hash {self.active.hash}: send others under a higher one"
            )
            raise InvalidConstraints("constraints_conflict", why)

    def _save(self, constraints: Constraints, raw: bytes) -> None:
        """Store the payload first, because the constraints refer to it. A crash in between leaves the old ones in
        force."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        payload = self.folder / f"payload-{constraints.version}-{constraints.hash[-16:]}"
        _write_atomically(payload, raw)
        kept = constraints.model_copy(update={"payload_ref": payload.name})
        _write_atomically(self.folder / "constraints.json", kept.model_dump_json().encode())
        for old in self.folder.glob("payload-*"):
            if old != payload:
                with contextlib.suppress(OSError):  # the new ones are stored already
                    old.unlink()


def _read(file: Path) -> ActiveConstraints:
    """Read and parse a constraints file with its payload. Raises InvalidConstraints."""
    try:
        with file.open("rb") as opened:
            frame = read_frame(decode(opened.read(MAX_PAYLOAD_BYTES)))
    except OSError as error:
        raise InvalidConstraints("constraints_missing", f"{file} cannot be read: {error.strerror}") from error
    except FrameFault as error:
        raise InvalidConstraints("constraints_invalid", f"{file}: {error}") from error
    if not isinstance(frame, Constraints):
        raise InvalidConstraints("constraints_invalid", f"{file} must hold version, hash, effective_at and payload_ref")
    return parse_constraints(frame, read_relative_payload(frame.payload_ref, file.parent))


def _write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically and durably. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    disk.sync(path.parent)
