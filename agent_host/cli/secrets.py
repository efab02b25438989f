"""`agent-host secret`: sets, lists and removes secrets of services. None is ever printed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InvalidRequest
from ..settings import load_settings
from .print_errors import print_errors

if TYPE_CHECKING:
    from ..secrets import SecretStore

secret = typer.Typer(help="Secrets of services: set, list and remove them. None is ever printed.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Its name, as services.yaml has it.")]
_MOST_INPUT = 64 * 1024


@secret.command("set")
@print_errors
def set_secret(name: Name) -> None:
    """Store a secret, which is read from standard input. A host that runs uses it from its next call on."""
    from ..secrets import checked_name, checked_value

    checked_name(name)
    is_new = _store().set(name, checked_value(_read()))
    print(f"{name} is {'set' if is_new else 'changed'}")


@secret.command("list")
@print_errors
def list_secrets() -> None:
    """List the secrets by name, and when each was changed."""
    for one in _store().list():
        print(f"{one.name}  {datetime.fromtimestamp(one.changed_at / 1000, UTC):%Y-%m-%d %H:%M}")


@secret.command("remove")
@print_errors
def remove_secret(name: Name) -> None:
    """Delete a secret."""
    _store().remove(name)
    print(f"{name} is removed")


def _store() -> SecretStore:
    from ..secrets import SecretStore

    return SecretStore(load_settings().data_dir)


def _read() -> str:
    """Read standard input; a person at a terminal is asked, and nothing is shown of what is typed."""
    if sys.stdin.isatty():
        return typer.prompt("secret", hide_input=True)
    try:
        return sys.stdin.buffer.read(_MOST_INPUT).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest("the secret is not UTF-8", faults=[("value", "is not UTF-8")]) from None
