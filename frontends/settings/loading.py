"""What the bots are told to do: by the file that names them, or for one of each platform by the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from agent_common.errors import StartError

from ..platform import PlatformName
from .bots_file import BotEntry, BotsFile, read_bots_file, read_secret
from .environment import LOADER, BotsEnvironment

MAX_NOTICES = 20


@dataclass(frozen=True, slots=True)
class BotSettings:
    """One bot on one platform."""

    name: str
    platform: PlatformName
    token: SecretStr
    base_url: str | None
    workspaces: tuple[str, ...]
    approvers: frozenset[str] = frozenset()
    """Principals that may decide what others have asked for."""
    people: frozenset[str] = frozenset()
    """Principals that are paired without a code."""


@dataclass(frozen=True, slots=True)
class BotsSettings:
    """All bots of a process, and the host that they use."""

    mesh_url: str
    mesh_token: SecretStr
    bots: tuple[BotSettings, ...]
    data_dir: Path
    notices: tuple[SecretStr, ...] = ()
    """URLs as apprise takes them: where notices go beside the chats."""


def load_data_dir() -> Path:
    """Return the folder of the database. Raises StartError."""
    return LOADER.load().data_dir


def load_settings() -> BotsSettings:
    """Read the environment and the file. Raises StartError that names every fault, a line each."""
    environment = LOADER.load()
    path = environment.config
    if path is None and not _in_environment(environment):
        path = _default_path()
        if not path.exists():
            fix = f"set TELEGRAM_BOT_TOKEN or DISCORD_BOT_TOKEN, or name the bots in {path}"
            raise StartError(f"no bot is configured; {fix} (docs/how-to/bots.md)")
    return _from_environment(environment) if path is None else _from_file(path, environment)


def _in_environment(environment: BotsEnvironment) -> bool:
    return environment.telegram_bot_token is not None or environment.discord_bot_token is not None


def _default_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "agent" / "bots.yaml"


def _from_environment(environment: BotsEnvironment) -> BotsSettings:
    given: list[tuple[PlatformName, SecretStr | None, str | None]] = [
        ("telegram", environment.telegram_bot_token, environment.telegram_base_url),
        ("discord", environment.discord_bot_token, environment.discord_base_url),
    ]
    bots = tuple(
        BotSettings(platform, platform, token, url, environment.workspace)
        for platform, token, url in given
        if token is not None
    )
    faults = [] if environment.workspace else ["BOTS_WORKSPACE: is missing; name the workspaces, for example a,b"]
    if environment.mesh_token is None:
        faults.append(_no_mesh_token(bots))
    if faults or environment.mesh_token is None:
        raise StartError("\n".join(faults))
    return BotsSettings(environment.mesh_url, environment.mesh_token, bots, environment.data_dir)


def _no_mesh_token(bots: Sequence[BotSettings]) -> str:
    users = " ".join(f"--user '{platform}:*'" for platform in sorted({bot.platform for bot in bots}, reverse=True))
    workspaces = ",".join(sorted({workspace for bot in bots for workspace in bot.workspaces})) or "a"
    made = f"make one with `agent-host token {users} --workspaces {workspaces}`"
    return f"MESH_TOKEN: the bots need a token of the host; {made}, and name its file in MESH_TOKEN_FILE"


def _from_file(path: Path, environment: BotsEnvironment) -> BotsSettings:
    file = read_bots_file(path)
    reading = _FileReading(path.parent)
    bots = tuple(reading.bot(f"bots.{at}", entry) for at, entry in enumerate(file.bots))
    reading.check_distinct(bots)
    url, token = reading.mesh(file, environment)
    notices = reading.notices(file)
    faults = [f"{path}: {fault}" for fault in reading.faults]
    if token is None and not reading.mesh_fault:
        faults.append(_no_mesh_token(bots))
    if faults or token is None:
        raise StartError("\n".join(faults))
    return BotsSettings(url, token, bots, environment.data_dir, notices)


class _FileReading:
    """Reads what the file names, and notes what is wrong."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        """What the paths in the file are relative to."""
        self.faults: list[str] = []
        self.mesh_fault = False

    def bot(self, where: str, entry: BotEntry) -> BotSettings:
        token = self._secret(where, entry.token, entry.token_file)
        if token is None and entry.token_file is None:
            self.faults.append(f"{where}.token: is missing; give it, or token_file")
        return BotSettings(
            entry.name,
            entry.platform,
            token or SecretStr(""),
            entry.base_url,
            tuple(entry.workspaces),
            frozenset(entry.approvers),
            frozenset(entry.people),
        )

    def check_distinct(self, bots: Sequence[BotSettings]) -> None:
        for at, bot in enumerate(bots):
            for earlier, other in enumerate(bots[:at]):
                if other.name == bot.name:
                    self.faults.append(f"bots.{at}.name: is that of bots.{earlier} too")
                if other.token == bot.token and bot.token.get_secret_value():
                    self.faults.append(f"bots.{at}.token: is that of bots.{earlier} too")
            self.faults += [
                f"bots.{at}.people: {identity} is not of {bot.platform}"
                for identity in sorted(bot.people)
                if not identity.startswith(f"{bot.platform}:")
            ]

    def mesh(self, file: BotsFile, environment: BotsEnvironment) -> tuple[str, SecretStr | None]:
        """Return URL and token of the host. The environment's token goes to no other URL than the environment's."""
        if file.mesh is None:
            return environment.mesh_url, environment.mesh_token
        before = len(self.faults)
        token = self._secret("mesh", file.mesh.token, file.mesh.token_file)
        self.mesh_fault = len(self.faults) > before
        own = "mesh_url" not in environment.model_fields_set or environment.mesh_url == file.mesh.url
        return file.mesh.url, token or (environment.mesh_token if own else None)

    def notices(self, file: BotsFile) -> tuple[SecretStr, ...]:
        found = [*file.notices]
        if file.notices_file is not None:
            try:
                lines = self._path(file.notices_file).read_text(encoding="utf-8").splitlines()
                found += [SecretStr(line.strip()) for line in lines if line.strip()]
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not text"
                self.faults.append(f"notices_file: cannot read {self._path(file.notices_file)}: {why}")
        if len(found) > MAX_NOTICES:
            self.faults.append(f"notices: are {len(found)}, and at most {MAX_NOTICES} are allowed")
        return tuple(found)

    def _secret(self, where: str, value: SecretStr | None, file: str | None) -> SecretStr | None:
        if file is None:
            return value
        if value is not None:
            self.faults.append(f"{where}.token_file: token is there too; keep one of them")
            return value
        try:
            return read_secret(self._path(file))
        except ValueError as error:
            self.faults.append(f"{where}.token_file: {error}")
            return None

    def _path(self, name: str) -> Path:
        return self._folder / Path(name).expanduser()
