"""`bots.yaml`, the file that names the bots: its shape, and all that is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from agent_common.errors import StartError
from agent_common.net import checked_bearer

from ..platform import PlatformName

DEFAULT_MESH_URL = "http://127.0.0.1:8420"


def checked_secret(secret: SecretStr) -> SecretStr:
    """Return the token without surrounding white space. Raises ValueError."""
    return SecretStr(checked_bearer(secret.get_secret_value()))


def _checked(pattern: str, form: str) -> AfterValidator:
    """Refuse a text that has another form, with an error that shows the form."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"must be {form}")
        return text

    return AfterValidator(check)


HttpUrl = Annotated[str, _checked(r"https?://[^\s/@?#]+(/[^\s?#]*)?", "http://HOST:PORT or https://HOST")]
Token = Annotated[SecretStr, AfterValidator(checked_secret)]
Principal = Annotated[str, _checked("(telegram|discord):[0-9]{1,20}", "telegram:NUMBER or discord:NUMBER")]
WorkspaceId = Annotated[str, _checked("[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "the id of a workspace")]
BotName = Annotated[str, _checked("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "letters, digits, `.`, `_` and `-`, at most 64")]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MeshEntry(_Entry):
    url: HttpUrl = DEFAULT_MESH_URL
    token: Token | None = None
    token_file: str | None = None


class BotEntry(_Entry):
    name: BotName
    platform: PlatformName
    token: Token | None = None
    token_file: str | None = None
    base_url: HttpUrl | None = None
    workspaces: list[WorkspaceId] = Field(min_length=1)
    approvers: list[Principal] = []
    people: list[Principal] = []


class BotsFile(_Entry):
    mesh: MeshEntry | None = None
    bots: list[BotEntry] = Field(min_length=1)
    notices: list[SecretStr] = []
    notices_file: str | None = None


_ENTRIES: Mapping[tuple[str, ...], type[BaseModel]] = {(): BotsFile, ("mesh",): MeshEntry, ("bots",): BotEntry}
"""The shapes of the file, by the keys that lead to them."""


def read_bots_file(path: Path) -> BotsFile:
    """Return what the file says. Raises StartError that names every fault, a line each."""
    import yaml  # needless where the environment is enough

    try:
        content: Any = yaml.safe_load(path.read_bytes())
        return BotsFile.model_validate(content)
    except OSError as error:
        raise StartError(f"{path}: cannot be read: {error.strerror}; AGENT_BOTS names the file") from error
    except yaml.YAMLError as error:
        # the error itself quotes lines, which hold tokens
        raise StartError(f"{path}: is not YAML{_position(getattr(error, 'problem_mark', None))}") from None
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise StartError("\n".join(f"{path}: {_fault(one['loc'], one)}" for one in faults)) from None


def read_secret(path: Path) -> SecretStr:
    """Return the secret that is all of a file. Raises ValueError that says what is wrong."""
    try:
        return checked_secret(SecretStr(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"cannot read {path}: it is not text") from None


def _position(mark: Any) -> str:
    return "" if mark is None else f": see line {mark.line + 1}, column {mark.column + 1}"


def _fault(where: Iterable[int | str], error: Mapping[str, Any]) -> str:
    path = [*where]
    if error["type"] == "extra_forbidden":
        entry = _ENTRIES.get(tuple(key for key in path[:-1] if isinstance(key, str)), BotsFile)
        return f"{_dotted(path)}: there is no such key; there is: {', '.join(entry.model_fields)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{_dotted(path)}: {message}" if path else message


def _dotted(path: Iterable[int | str]) -> str:
    return ".".join(map(str, path))
