"""`agent-host models`: the catalog, or all that is known of one model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import NotFound
from ..settings import load_settings

if TYPE_CHECKING:
    from ..proxy import ShownCatalog, ShownModel


def models(name: Annotated[str | None, typer.Argument(help="One model, with its profile")] = None) -> None:
    """Show the models an agent may name, of the host that runs, else of one that would start here; with a name, what
    that one takes and gives where it differs."""
    from ..proxy import ShownCatalog, load_catalog

    settings = load_settings()
    shown = ShownCatalog.of_running_host(settings.data_dir)
    if shown is None:
        shown = ShownCatalog.of(load_catalog(settings))
        typer.echo(f"no host uses {settings.data_dir}; one that starts with these settings has:", err=True)
    if name is None:
        _show_all(shown)
        return
    found = next((model for model in shown.models if model.name == name), None)
    if found is None:
        raise NotFound(f"there is no model {name!r}; there are: {', '.join(model.name for model in shown.models)}")
    _show_one(found)


def _show_all(catalog: ShownCatalog) -> None:
    """Print a table for a person, or a line for each model with tabs between its cells, as the tables of `agent`."""
    rows = [_row(model) for model in catalog.models]
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head in ("model", "provider", "its name there", "context", "output", "$/M in", "$/M out", "capabilities"):
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, emoji=False, highlight=False).print(table)


def _row(model: ShownModel) -> Sequence[str]:
    known = [model.context_limit, model.max_output_tokens, *model.prices]
    shown = ["unknown" if value is None else f"{value:,}" for value in known]
    return (model.name, model.provider, model.upstream, *shown, ", ".join(model.capabilities))


def _show_one(model: ShownModel) -> None:
    """Print the model as lines of the catalog."""
    typer.echo(f"{model.name}:")
    typer.echo(f"  provider: {model.provider}{f'  # {model.provider_url}' if model.provider_url else ''}")
    typer.echo(f"  model: {model.upstream}")
    if model.api != "chat":
        typer.echo(f"  api: {model.api}")
    typer.echo("  profile:" if model.profile else "  profile: {}")
    for member, value in model.profile.items():
        typer.echo(f"    {member}: {_yaml(value)}")


def _yaml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) and not value.strip() else str(value)
