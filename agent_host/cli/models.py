"""`agent-host models`: the catalog, or all that is known of one model."""

from __future__ import annotations

from typing import Annotated

import typer

from ..proxy import CatalogModel, HostCatalog, load_catalog
from ..settings import load_settings


def models(name: Annotated[str | None, typer.Argument(help="One model, with its profile")] = None) -> None:
    """Show the models an agent may name; with a name, what that one takes and gives where it differs."""
    catalog = load_catalog(load_settings())
    if name is None:
        _show_all(catalog)
    else:
        _show_one(catalog, catalog.find(name))


def _show_all(catalog: HostCatalog) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    names = (Column(head, no_wrap=True) for head in ("model", "provider", "its name there"))
    table = Table(*names, "context", "output", "$/M in", "$/M out", "capabilities")
    for model in catalog.models.values():
        prices = (model.pricing.input, model.pricing.output) if model.pricing else (None, None)
        known = [model.context_limit, model.max_output_tokens, *prices]
        shown = ["unknown" if value is None else f"{value:,}" for value in known]
        table.add_row(model.name, model.provider, model.upstream, *shown, ", ".join(model.capabilities))
    Console(soft_wrap=True).print(table)


def _show_one(catalog: HostCatalog, model: CatalogModel) -> None:
    """Print the model as lines of the catalog."""
    url = catalog.providers[model.provider].shown_url
    typer.echo(f"{model.name}:")
    typer.echo(f"  provider: {model.provider}{f'  # {url}' if url else ''}")
    typer.echo(f"  model: {model.upstream}")
    if model.api != "chat":
        typer.echo(f"  api: {model.api}")
    profile = model.profile.stated()
    typer.echo("  profile:" if profile else "  profile: {}")
    for member, value in profile.items():
        typer.echo(f"    {member}: {_yaml(value)}")


def _yaml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) and not value.strip() else str(value)
