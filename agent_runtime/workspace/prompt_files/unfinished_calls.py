"""Keep on disk what the files were before the calls that run now: a server that dies cannot compare them at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_common.telemetry import logger

from .kept_file import replace_file
from .watched_files import State

log = logger(__name__)


class UnfinishedCalls(BaseModel):
    """The files before the first of the calls, and who made it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    before: dict[str, State]
    principal: str
    agent: str


class UnfinishedCallsFile:
    """The file is there as long as such calls run, and after a crash."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept: UnfinishedCalls | None = None

    def load(self) -> UnfinishedCalls | None:
        """Return what a server that died has left; None: nothing."""
        try:
            return UnfinishedCalls.model_validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.error("authors of instructions cannot be read", path=str(self._file), error=str(error))
            return None

    def keep(self, before: Mapping[str, State], principal: str, agent: str) -> None:
        """A call begins. Nothing happens if an earlier one runs: the files before that are kept."""
        if self._kept is None:
            self._replace(UnfinishedCalls(before=dict(before), principal=principal, agent=agent))

    def set_known(self, path: str, state: State) -> None:
        """It is known that none of the calls has made the file what it is."""
        if self._kept is not None:
            self._replace(self._kept.model_copy(update={"before": {**self._kept.before, path: state}}))

    def remove(self) -> None:
        """The last call has ended."""
        self._kept = None
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            log.error("authors of instructions cannot be kept", path=str(self._file), error=str(error))

    def _replace(self, kept: UnfinishedCalls) -> None:
        self._kept = kept
        replace_file(self._file, kept.model_dump_json().encode())
