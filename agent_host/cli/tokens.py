"""`agent-host token`: make, list and revoke tokens."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InvalidRequest, StartError
from ..settings import HostSettings, load_settings

if TYPE_CHECKING:
    from ..access import TokenInfo, TokenStore
    from ..database import HostDatabase


def token(
    agent_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="An agent's id; `operator` replaces the operator's token.")
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(
            help="Make a token that speaks for this user only; again: for several. `telegram:*` is a pattern."
        ),
    ] = None,
    *,
    workspaces: Annotated[str | None, typer.Option(help="With --user: its workspaces, as a,b.")] = None,
    expires: Annotated[str | None, typer.Option(help="With --user: how long it is valid, such as 12h or 30d.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the tokens, without their secrets.")] = False,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Delete the token with this id (tok_...), or all tokens of an agent.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the token in a file and print its path; one that still holds stays.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--show", help="Print the token that is kept in a file, such as the operator's.")
    ] = False,
) -> None:
    """Make a bearer token and print it. The host keeps its SHA-256, and the operator's own in a file."""
    _check_usage(agent_id, user, workspaces, expires, show=show)
    settings = load_settings()
    with open_tokens(settings) as (database, tokens):
        if show:
            _print_table(database.run_sync(tokens.list_in))
        elif user:
            print(_mint_scoped(database, tokens, user, workspaces or "", expires))
        elif agent_id is not None and again:
            print(_kept(settings, database, tokens, agent_id))
        elif agent_id is not None and revoke:
            print(f"revoked: {_revoke(database, tokens, agent_id)}")
        elif agent_id is not None:
            print(_mint(settings, database, tokens, agent_id, keep=keep))


def _check_usage(
    agent_id: str | None, user: list[str] | None, workspaces: str | None, expires: str | None, *, show: bool
) -> None:
    if (agent_id is not None) + bool(user) + show != 1:
        raise InvalidRequest("give one of: an agent's ID, --user NAME --workspaces a,b, or --list")
    if not user and (workspaces is not None or expires is not None):
        raise InvalidRequest("--workspaces and --expires belong to --user NAME")


@contextmanager
def open_tokens(settings: HostSettings) -> Generator[tuple[HostDatabase, TokenStore]]:
    """Open the database for a command, while a host may run."""
    from agent_common.clock import SystemClock

    from ..access import TokenStore
    from ..database import open_database
    from ..serve import make_data_dir

    make_data_dir(settings.data_dir)
    database = open_database(settings.database)
    try:
        yield database, TokenStore(database, SystemClock())
    finally:
        database.close()


def _mint(settings: HostSettings, database: HostDatabase, tokens: TokenStore, agent_id: str, *, keep: bool) -> str:
    from ..access import OPERATOR, check_agent_id, token_file

    if agent_id != OPERATOR:
        check_agent_id(agent_id)
    elif settings.admin_token is not None:
        raise StartError("MESH_ADMIN_TOKEN is set, and is the operator's only token; change it there")
    path = token_file(settings.data_dir, agent_id)
    if agent_id == OPERATOR and not keep:
        path.unlink(missing_ok=True)  # a new one is wanted, and kept as the first one is
        return database.run_sync(
            lambda connection: tokens.ensure_file_in(connection, agent_id, path).read_text().strip()
        )
    if keep:
        return str(database.run_sync(lambda connection: tokens.ensure_file_in(connection, agent_id, path)))
    return database.run_sync(lambda connection: tokens.mint_in(connection, agent_id, "manual"))


def _kept(settings: HostSettings, database: HostDatabase, tokens: TokenStore, agent_id: str) -> str:
    """Return the token that is kept in a file. Raises StartError if there is none that holds."""
    from ..access import OPERATOR, token_file

    if agent_id == OPERATOR and settings.admin_token is not None:
        return settings.admin_token.get_secret_value()
    path = token_file(settings.data_dir, agent_id)
    found = database.run_sync(lambda connection: tokens.kept_in(connection, agent_id, path))
    if found is None:
        raise StartError(f"{path} keeps no token that holds; `agent-host token {agent_id} --keep` makes one")
    return found


def _mint_scoped(
    database: HostDatabase, tokens: TokenStore, users: list[str], workspaces: str, expires: str | None
) -> str:
    from ..access import check_scope, parse_duration, parse_users

    scope = check_scope(parse_users(users, "user"), [name.strip() for name in workspaces.split(",") if name.strip()])
    lasts = parse_duration(expires) if expires is not None else None
    return database.run_sync(lambda connection: tokens.mint_scoped_in(connection, scope, lasts))[0]


def _revoke(database: HostDatabase, tokens: TokenStore, name: str) -> int:
    from ..access import is_token_id

    if is_token_id(name):
        database.run_sync(lambda connection: tokens.revoke_one_in(connection, name))
        return 1
    return database.run_sync(lambda connection: tokens.revoke_in(connection, name))


def _print_table(found: list[TokenInfo]) -> None:
    """Print a line for each token, in columns that are never cut, so that an id can be copied or piped."""
    rows = [("id", "owner", "purpose", "created", "expires", "users", "workspaces")]
    for one in found:
        users, workspaces = (one.scope.users.patterns, sorted(one.scope.workspaces)) if one.scope else ((), ())
        expires = _as_date(one.expires_at) if one.expires_at else "never"
        rows.append(
            (one.id, one.owner, one.purpose, _as_date(one.created_at), expires, ",".join(users), ",".join(workspaces))
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _as_date(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
