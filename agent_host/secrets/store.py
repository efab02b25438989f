"""The secrets of `agent-host secret`: a file of mode 0600 for each, in a folder of mode 0700."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from agent_common import disk

from ..errors import InvalidRequest, NotFound

MIN_CHARACTERS = 8
MAX_CHARACTERS = 8192
"""Of a secret. What is shorter cannot be taken out of answers without taking out ordinary words as well."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """What is shown of a secret."""

    name: str
    changed_at: int
    """Epoch milliseconds."""


def checked_name(name: str) -> str:
    """Return the name. Raises InvalidRequest."""
    if not _NAME.fullmatch(name):
        message = "must be 1 to 64 letters, digits, '_' or '-', and begin with a letter or digit"
        raise InvalidRequest(f"name {name!r} {message}", faults=[("name", message)])
    return name


def checked_value(text: str) -> str:
    """Return a secret without the end of its line. Raises InvalidRequest, which does not quote it."""
    value = text.removesuffix("\n").removesuffix("\r")
    if not MIN_CHARACTERS <= len(value) <= MAX_CHARACTERS:
        message = f"must have {MIN_CHARACTERS} to {MAX_CHARACTERS} characters"
    elif not value.isprintable():
        message = "must be one line of printable characters"
    else:
        return value
    raise InvalidRequest(f"the secret {message}", faults=[("value", message)])


class SecretStore:
    """The secrets in a folder, which is made when the first is set."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "secrets"

    def set(self, name: str, value: str) -> bool:
        """Store a checked secret. Returns whether it is new. A crash leaves the old one, or the new one."""
        path = self._path(name)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not path.exists()
        new = path.with_name(f".{name}.new")
        new.unlink(missing_ok=True)
        with open(
            os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        disk.sync(self._folder)
        return is_new

    def list(self) -> list[StoredSecret]:
        """Return the secrets by name, without what they are."""
        if not self._folder.is_dir():
            return []
        found = [path for path in self._folder.iterdir() if _NAME.fullmatch(path.name)]
        return [StoredSecret(path.name, round(path.stat().st_mtime * 1000)) for path in sorted(found)]

    def remove(self, name: str) -> None:
        """Delete a secret. Raises NotFound."""
        try:
            self._path(name).unlink()
        except FileNotFoundError as error:
            raise NotFound(f"there is no secret {name!r}; `agent-host secret list` shows those there are") from error

    def read(self, name: str) -> str | None:
        """Return a secret, or None if there is none. Raises OSError."""
        try:
            return self._path(name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def _path(self, name: str) -> Path:
        return self._folder / checked_name(name)
