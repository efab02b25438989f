"""`python -m agent_conformance`: `mediation` tests an agent or a listener, `hub` a hub."""

from __future__ import annotations

import sys

import typer

from agent_common.errors import StartError

from .command import conformance
from .hub_command import hub

app = typer.Typer(
    help="Test the other ends of our protocols.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("mediation")(conformance)
app.command("hub")(hub)


def main() -> None:
    try:
        app()
    except StartError as error:
        for line in error.message.splitlines():
            print(f"agent_conformance: {line}", file=sys.stderr)  # noqa: T201
        sys.exit(1)


if __name__ == "__main__":
    main()
