"""Settings of the bots that are environment variables. Each field's docstring is its row in
`docs/reference/settings.md`."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent_common.home_folder import below_home
from agent_common.settings import SettingsLoader

from .bots_file import DEFAULT_MESH_URL, HttpUrl, Token, WorkspaceId

PREFIX = "BOTS_"
_NAMES = re.compile(r"[\s,]+")


class BotsEnvironment(BaseModel):
    """What the environment says."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    config: Path | None = Field(default=None, validation_alias="AGENT_BOTS")
    """File that names the bots (docs/how-to/bots.md); unset, and without a token below, it is
    `~/.config/agent/bots.yaml`, or below XDG_CONFIG_HOME."""
    data_dir: Path = Field(default_factory=lambda: below_home(".local/share/agent-bots", "BOTS_DATA_DIR"))
    """Folder for the database: who is paired, and what waits."""
    workspace: tuple[WorkspaceId, ...] = ()
    """For bots whose token is in the environment: the workspaces of the host that their people may use, with commas
    between them; the first is used unless a person chooses another."""
    telegram_bot_token: Token | None = Field(default=None, validation_alias="TELEGRAM_BOT_TOKEN")
    """Token of a Telegram bot; that bot is called `telegram`."""
    telegram_base_url: HttpUrl | None = Field(default=None, validation_alias="TELEGRAM_BASE_URL")
    """Where the Bot API answers, for a server of your own."""
    discord_bot_token: Token | None = Field(default=None, validation_alias="DISCORD_BOT_TOKEN")
    """Token of a Discord bot; that bot is called `discord`."""
    discord_base_url: HttpUrl | None = Field(default=None, validation_alias="DISCORD_BASE_URL")
    """Where the REST API of Discord answers, for a server of your own; its `/api/v10` may be left out."""
    mesh_url: HttpUrl = Field(default=DEFAULT_MESH_URL, validation_alias="MESH_URL")
    """The host, unless the file names one; `agent bots` takes that of the current context without it."""
    mesh_token: Token | None = Field(default=None, validation_alias="MESH_TOKEN")
    """The host's token for the bots; `agent bots` takes the token of the current context without it."""

    @field_validator("config", "data_dir")
    @classmethod
    def _whole(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    @field_validator("workspace", mode="before")
    @classmethod
    def _split(cls, names: object) -> object:
        return tuple(filter(None, _NAMES.split(names))) if isinstance(names, str) else names


LOADER = SettingsLoader(BotsEnvironment, PREFIX, "docs/reference/settings.md")
