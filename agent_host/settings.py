"""Settings of the host: environment variables, `MESH_` ones and the ecosystem's own `OPENAI_` ones.

Each field's docstring is its line in `--help` and its row in `docs/host.md`. A secret also has a `_FILE` form,
which names a file that holds it.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from .errors import StartError

PREFIX = "MESH_"
ProviderKind = Literal["demo", "local", "openai"]


class Settings(BaseSettings):
    """What an operator may set. Immutable once the process has started."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        env_ignore_empty=True,
        populate_by_name=True,
    )

    host: str = "127.0.0.1"
    """Address the host listens on."""
    port: int = Field(default=8420, ge=0, le=65535)
    """Port the host listens on; 0 takes a free one."""
    data_dir: Path = Field(default_factory=lambda: Path.home() / ".local/share/agent-mesh")
    """Folder for the database and the workspaces."""
    database_url: SecretStr | None = Field(default=None, min_length=1)
    """SQLAlchemy URL of the database; unset it is SQLite in {MESH_DATA_DIR}/mesh.db."""
    admin_token: SecretStr | None = Field(default=None, min_length=1)
    """The operator's bearer token; unset one is made at the first start and shown once."""
    models: Path | None = None
    """YAML file that maps model names to providers; unset there are `default` and `embedding`."""
    provider: ProviderKind | None = None
    """Provider of the built-in models; unset it is openai when OPENAI_API_KEY or OPENAI_BASE_URL is set, else demo."""
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY", min_length=1)
    """Key for the provider `openai`."""
    openai_base_url: str = Field(default="https://api.openai.com/v1", validation_alias="OPENAI_BASE_URL")
    """Base URL of the provider `openai`: any OpenAI-compatible endpoint."""
    openai_model: str = Field(default="gpt-4.1-mini", validation_alias="OPENAI_MODEL", min_length=1)
    """Model that the built-in `default` stands for at the provider `openai`."""
    upstream_connect_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    """Seconds to reach a provider."""
    upstream_idle_timeout: float = Field(default=300, gt=0, allow_inf_nan=False)
    """Seconds without a byte from a provider before its call is given up."""
    start_timeout: float = Field(default=30, gt=0, allow_inf_nan=False)
    """Seconds a started runtime may take until it is ready."""
    stop_grace: float = Field(default=15, ge=0, allow_inf_nan=False)
    """Seconds a runtime gets to stop before it is killed, and at most 5 of them an answer that is under way."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious log line that is written."""

    @field_validator("openai_base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/")

    @field_validator("data_dir", "models")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else value

    @field_validator("models")
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        if value is not None and not (value.is_file() and os.access(value, os.R_OK)):
            raise ValueError("must name a file that can be read")
        return value

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url.get_secret_value() if self.database_url else f"sqlite:///{self.data_dir / 'mesh.db'}"

    @property
    def builtin_provider(self) -> ProviderKind:
        """The provider that the built-in models use."""
        if self.provider:
            return self.provider
        given = {"openai_api_key", "openai_base_url"} & self.model_fields_set
        return "openai" if given else "demo"

    @classmethod
    def settings_customise_sources(  # pyright: ignore[reportIncompatibleMethodOverride]  it is called by keyword
        cls, settings_cls: type[BaseSettings], **sources: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return sources["init_settings"], sources["env_settings"], _SecretFiles(settings_cls)


class _SecretFiles(PydanticBaseSettingsSource):
    """`OPENAI_API_KEY_FILE=/run/secrets/key` gives OPENAI_API_KEY the stripped content of that file."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"{env_name(field_name)}_FILE")
        readable = path and is_secret(field) and not _unreadable(path)
        return Path(path).read_text().strip() if path and readable else None, field_name, False

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields
        found = {name: self.get_field_value(field, name)[0] for name, field in fields.items()}
        return {name: value for name, value in found.items() if value}


def env_name(field_name: str) -> str:
    """The environment variable of a field."""
    alias = Settings.model_fields[field_name].validation_alias
    return alias if isinstance(alias, str) else PREFIX + field_name.upper()


def is_secret(field: FieldInfo) -> bool:
    return "SecretStr" in str(field.annotation)


def setting_names() -> list[str]:
    """Every environment variable that this module reads, `_FILE` forms included."""
    fields = Settings.model_fields.items()
    files = [f"{env_name(name)}_FILE" for name, field in fields if is_secret(field)]
    return [env_name(name) for name, _ in fields] + files


def load_settings(**overrides: Any) -> Settings:
    """Reads the environment. Raises StartError that names every fault, one a line."""
    faults = [*_unknown_names(), *_file_faults()]
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        faults += [_fault(str(one["loc"][0]), one["msg"], one.get("input")) for one in error.errors()]
    else:
        if not faults:
            return settings
    raise StartError("\n".join(faults))


def _unknown_names() -> list[str]:
    known = setting_names()
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    return [f"{name}: there is no such setting{_hint(name, known)}" for name in unknown]


def _hint(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; see agent-host up --help"


def _file_faults() -> list[str]:
    faults: list[str] = []
    for name in (name for name in setting_names() if name.endswith("_FILE")):
        path = os.environ.get(name)
        if path and os.environ.get(name.removesuffix("_FILE")):
            faults.append(f"{name}: {name.removesuffix('_FILE')} is set too; keep one of them")
        elif path and (why := _unreadable(path)):
            faults.append(f"{name}: cannot read {path}: {why}")
    return faults


def _unreadable(path: str) -> str | None:
    try:
        return None if Path(path).read_text().strip() else "it is empty"
    except (OSError, UnicodeDecodeError) as error:
        return error.strerror if isinstance(error, OSError) else "it is not text"


def _fault(where: str, message: str, value: Any) -> str:
    name = env_name(where) if where in Settings.model_fields else where
    secret = any(env_name(field) == name and is_secret(info) for field, info in Settings.model_fields.items())
    return f"{name}: {message.removeprefix('Value error, ')}" + ("" if secret else f" (is {str(value)!r})")
