"""The available agents: the built-in ones and the files of a folder, which is read again when it changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_common.protocol import AgentCard
from agent_common.telemetry import logger

from ..errors import InvalidRequest
from . import safe_yaml
from .manifest import InvalidManifest, Manifest, parse_manifest

DEFAULT = "default"
BUILTIN_FOLDER = Path(__file__).with_name("builtin")
SUFFIXES = (".md", ".yaml", ".yml", ".json")
"""YAML parsers read JSON too."""
MAX_MANIFEST_BYTES = 256 * 1024
"""Maximum bytes of a manifest."""
MAX_AGENTS = 200

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """All agents at one moment; replaced as a whole, never changed."""

    agents: Mapping[str, Manifest]
    faults: Mapping[str, str]
    """File name -> why it could not be loaded."""
    signature: object = None


class AgentDirectory:
    """Finds agents by name. A file with the name of a built-in agent replaces it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._found = AgentSnapshot(MappingProxyType(builtin_agents()), MappingProxyType({}))

    def get(self, name: str) -> Manifest | None:
        return self._now().agents.get(name)

    def require_selectable(self, name: str) -> Manifest:
        """Return an agent that people may choose. Raises InvalidRequest."""
        found = self.get(name)
        if found is None or not found.for_people:
            there_are = ", ".join(one.name for one in self.all() if one.for_people)
            what = f"is for {found.audience} only" if found else "does not exist"
            raise InvalidRequest(f"agent {name[:100]} {what}", faults=[("agent", f"must be one of: {there_are}")])
        return found

    def all(self) -> list[Manifest]:
        """Return all agents, sorted by name."""
        return [agent for _, agent in sorted(self._now().agents.items())]

    def callable_agents(self) -> list[tuple[str, str]]:
        """Return name and description of the agents that other agents may call."""
        return [(agent.name, agent.description) for agent in self.all() if agent.for_agents]

    def cards(self) -> list[AgentCard]:
        """Return all agents as cards for callers, including files that could not be loaded."""
        now = self._now()
        cards = [
            AgentCard(name=one.name, description=one.description, mode=one.mode, source=one.source)
            for one in self.all()
        ]
        return cards + [AgentCard(name=file, source="file", error=fault) for file, fault in sorted(now.faults.items())]

    def _now(self) -> AgentSnapshot:
        """Return the current agents, reading the folder again if its entries have changed."""
        signature = _signature(self._folder)
        if signature != self._found.signature:
            agents, faults = _read(self._folder)
            for file, fault in faults.items():
                log.warning("agent not loaded", file=file, error=fault)
            self._found = AgentSnapshot(
                MappingProxyType({**builtin_agents(), **agents}), MappingProxyType(faults), signature
            )
        return self._found


@cache
def builtin_agents() -> dict[str, Manifest]:
    """Return the built-in agents by name."""
    return {
        path.stem: parse_manifest(path.stem, _content(path), "builtin") for path in sorted(BUILTIN_FOLDER.glob("*.md"))
    }


def _files(folder: Path | None) -> list[Path]:
    return [] if folder is None else [folder / name for name in _names(folder)]


def _names(folder: Path) -> list[str]:
    """Return the names of files that may be agents. Called several times per turn: names cost a fifth of what paths
    do."""
    try:
        found = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        log.warning("agents cannot be read", folder=str(folder), error=str(error))
        return []
    return sorted(name for name in found if name.endswith(SUFFIXES) and not name.startswith("."))[:MAX_AGENTS]


def _signature(folder: Path | None) -> object:
    if folder is None:
        return None
    found: list[tuple[str, int, int, int]] = []
    for name in _names(folder):
        try:
            about = os.stat(os.path.join(folder, name))
        except OSError:
            continue
        found.append((name, about.st_mtime_ns, about.st_size, about.st_ino))
    return tuple(found) or None


def _read(folder: Path | None) -> tuple[dict[str, Manifest], dict[str, str]]:
    agents: dict[str, Manifest] = {}
    faults: dict[str, str] = {}
    for path in _files(folder):
        try:
            one = parse_manifest(path.stem, _content(path))
            if one.name in agents:
                raise InvalidManifest(f"name: {one.name} is taken by another file")
            agents[one.name] = one
        except InvalidManifest as fault:
            faults[path.name] = str(fault)
        except OSError as error:
            faults[path.name] = f"cannot be read: {error.strerror}"
    return agents, faults


def _content(path: Path) -> dict[str, Any]:
    """Return the fields of a manifest; in a Markdown file the text below the front matter is the prompt."""
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would block
        raise InvalidManifest("is not a file")
    with path.open("rb") as file:
        data = file.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise InvalidManifest(f"is larger than {MAX_MANIFEST_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
        if path.suffix != ".md":
            return _mapping(text)
        head, body = _front_matter(text)
        return {**_mapping(head), "prompt": body}
    except UnicodeDecodeError:
        raise InvalidManifest("is not UTF-8 text") from None
    except safe_yaml.UnsafeYaml as error:
        raise InvalidManifest(f"is not YAML: {error}") from None


def _front_matter(text: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    if lines and lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() == "---":
                return "".join(("\n", *lines[1:number])), "".join(lines[number + 1 :])
    raise InvalidManifest("must begin with front matter: YAML between two lines of ---")


def _mapping(text: str) -> dict[str, Any]:
    loaded: Any = safe_yaml.load(text)
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidManifest("must be a mapping of fields")
    return loaded  # pyright: ignore[reportUnknownVariableType]
