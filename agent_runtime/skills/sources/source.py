"""Read the folder of plugins at one moment, so that the code that is validated is the code that goes into service."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...workspace import SafePath

MAX_BYTES = 8 * 1024 * 1024
"""Bytes of one plugin, and of all helpers together."""
MAX_FILES = 500
SKIPPED_NAMES = frozenset(("__pycache__", "node_modules", "venv"))

log = logger(__name__)

FileStamp = tuple[str, int, int, int, int, int]
"""A file's name, device, inode, size, and times of last change in nanoseconds."""
Stamp = tuple[FileStamp, ...]
"""The stamps of all files of the folder that a plugin can import. They differ after every save."""


class UnreadablePlugin(Exception):
    """A plugin cannot be read. The text says why, for its author."""


@dataclass(frozen=True, slots=True)
class PluginListing:
    """A plugin in the folder, and its stamp."""

    file: str
    """Its name in the folder, which identifies it: `handshake.py`, or the folder of a package."""
    stamp: Stamp


@dataclass(frozen=True)
class PluginSource:
    """The code of one plugin, with the helpers beside it at the time."""

    file: str
    files: Mapping[str, bytes]
    """Contents by path within the folder."""
    helpers: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def with_helpers(self, folder: Path) -> PluginSource:
        """Return the same plugin with the helpers that are in the folder now."""
        return PluginSource(self.file, self.files, read_helpers(folder))

    @property
    def entry_code(self) -> bytes:
        """The code of the file, or of the package's `__init__.py`."""
        return self.files.get(self.file) or self.files.get(f"{self.file}/__init__.py", b"")

    @cached_property
    def digest(self) -> str:
        """The digest of the plugin alone, which identifies a version."""
        return _digest(self.files)

    @cached_property
    def build_digest(self) -> str:
        """The digest of the plugin and its helpers."""
        return _digest({**self.files, **self.helpers})


def list_plugins(folder: Path) -> dict[str, PluginListing]:
    """Return the plugins of a folder by file: Python files and packages that do not begin with `_` or a dot. Everything
    else is a helper that all plugins may import and read, so it is part of each plugin's stamp."""
    entries = {entry: tuple(_file_stamps(folder, entry)) for entry in _entries(folder)}
    plugins = {entry: stamp for entry, stamp in entries.items() if _is_plugin(folder, entry)}
    helpers = tuple(stamp for entry in entries if entry not in plugins for stamp in entries[entry])
    return {file: PluginListing(file, (*stamp, *helpers)) for file, stamp in plugins.items()}


def find_source(path: Path) -> PluginSource | None:
    """Read one plugin by its path, with the helpers beside it; None if there is no plugin. Raises
    UnreadablePlugin."""
    path = Path(os.path.abspath(path))
    found = list_plugins(path.parent).get(path.name)
    return read_plugin(path.parent, found) if found is not None else None


def read_plugin(folder: Path, plugin: PluginListing) -> PluginSource:
    """Read a plugin with the helpers beside it. Raises UnreadablePlugin."""
    files = _read_entry(folder, plugin.file)
    _check_size(files, plugin.file)
    if not files:
        raise UnreadablePlugin(f"{plugin.file} is gone")
    return PluginSource(plugin.file, files, read_helpers(folder))


def read_helpers(folder: Path) -> dict[str, bytes]:
    """Read the files beside the plugins. A helper that cannot be read or is too large is left out and logged: it must
    not stop all plugins."""
    found: dict[str, bytes] = {}
    for entry in _entries(folder):
        if _is_plugin(folder, entry):
            continue
        try:
            more = {**found, **_read_entry(folder, entry)}
            _check_size(more, f"everything beside the plugins, with {entry},")
            found = more
        except UnreadablePlugin as fault:
            _log_once(str(fault))
    return found


@lru_cache(maxsize=64)
def _log_once(fault: str) -> None:
    """Log each fault once."""
    log.warning("a helper of the skills is left out", error=fault)


def _entries(folder: Path) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [name for name in names if not _is_skipped(name)]


def _is_skipped(name: str) -> bool:
    """Whether a name is one that editors or Python put beside a file, or is not valid text."""
    if name.startswith((".", "#")) or name.endswith(("~", ".tmp", ".swp")) or name in SKIPPED_NAMES:
        return True
    return any("\ud800" <= character <= "\udfff" for character in name)


def _is_plugin(folder: Path, entry: str) -> bool:
    path = folder / entry
    return not entry.startswith("_") and (
        (entry.endswith(".py") and path.is_file()) or (path / "__init__.py").is_file()
    )


def _file_stamps(folder: Path, entry: str) -> Iterator[FileStamp]:
    for name in _walk(folder, entry):
        try:
            found = os.stat(folder / name)
        except OSError:
            continue
        yield name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _walk(folder: Path, entry: str) -> Iterator[str]:
    """Yield the files of an entry in order. It ends soon after there are too many, also where links lead in circles."""
    waiting = [entry]
    seen = 0
    while waiting and seen <= 2 * MAX_FILES:
        name = waiting.pop()
        seen = seen + 1
        if _is_link_cycle(folder / name):
            continue
        if (folder / name).is_dir():
            inside = [f"{name}/{one}" for one in _entries(folder / name)]
            waiting.extend(reversed(inside[: 2 * MAX_FILES]))
        else:
            yield name


def _is_link_cycle(path: Path) -> bool:
    """Whether a link leads to itself, or to a folder that contains it."""
    if not path.is_symlink():
        return False
    try:
        real = os.path.realpath(path)
    except OSError:  # it was replaced meanwhile
        return True
    return os.path.islink(real) or Path(os.path.realpath(path.parent)).is_relative_to(real)


def _read_entry(folder: Path, entry: str) -> dict[str, bytes]:
    """Return the regular files of an entry by path; reading ends where there is too much."""
    found: dict[str, bytes] = {}
    size = 0
    for name in _walk(folder, entry):
        data = _read_file(folder, name, MAX_BYTES - size + 1)
        if data is not None:
            found[name] = data
            size += len(data)
        if size > MAX_BYTES or len(found) > MAX_FILES:
            break
    return found


def _read_file(folder: Path, name: str, max_bytes: int) -> bytes | None:
    """Return the content; None for what is no regular file or is gone. A link is followed within the folder only:
    mounted volumes are often made of links, but no worker may see files elsewhere. A link that replaces the file
    meanwhile is not followed."""
    try:
        root = Path(os.path.realpath(folder))
        real = Path(os.path.realpath(folder / name, strict=True))
        if not real.is_relative_to(root):
            raise UnreadablePlugin(f"{name} is a link that leads out of the folder; put the file itself there")
        with SafePath(root, real, name).open() as file:
            return file.read(max_bytes)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadablePlugin(f"{name} cannot be read: {error.strerror}") from error
    except ToolFailure as failure:
        if failure.kind == "invalid":
            return None
        raise UnreadablePlugin(failure.message) from failure


def _check_size(files: Mapping[str, bytes], what: str) -> None:
    if len(files) > MAX_FILES:
        raise UnreadablePlugin(f"{what} has more than {MAX_FILES} files")
    if sum(map(len, files.values())) > MAX_BYTES:
        raise UnreadablePlugin(f"{what} is larger than {MAX_BYTES // 2**20} MiB")


def _digest(files: Mapping[str, bytes]) -> str:
    sha = hashlib.sha256()
    for name in sorted(files):
        sha.update(b"%d %b %d " % (len(os.fsencode(name)), os.fsencode(name), len(files[name])))
        sha.update(files[name])
    return sha.hexdigest()
