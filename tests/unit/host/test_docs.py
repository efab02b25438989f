"""The host's pages say what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import yaml

from agent_common.protocol import field_docs
from agent_host.app import create_app
from agent_host.cli import SETTINGS_HELP
from agent_host.database import open_database
from agent_host.descriptors import divide_descriptors
from agent_host.proxy.catalog_file import _File
from agent_host.settings import LOADER, HostSettings
from scripts.settings import allowed

DOCS = Path(__file__).parents[3] / "docs"
DEFAULTS = {"data_dir": "`~/.local/share/agent-mesh`"}


def settings_table() -> Iterator[str]:
    """The rows that docs/reference/host.md must have."""
    docs = field_docs(HostSettings)
    for name, field in HostSettings.model_fields.items():
        default = DEFAULTS.get(name) or ("none" if field.default is None else f"`{field.default}`")
        secret = " (secret)" if LOADER.is_secret(name) else ""
        yield f"| `{LOADER.env_name(name)}`{secret} | {default} | {allowed(field)} | {docs[name]} |"


def test_the_page_of_the_host_has_every_setting_as_it_is() -> None:
    page = (DOCS / "reference/host.md").read_text()
    listed = [line for line in page[page.index("## Settings") :].splitlines() if line.startswith("| `")]
    assert listed == list(settings_table())


def test_every_setting_is_a_line_of_help() -> None:
    text = SETTINGS_HELP
    for name in HostSettings.model_fields:
        assert f"  {LOADER.env_name(name)}" in text
        assert (f"{LOADER.env_name(name)}_FILE" in text) == LOADER.is_secret(name)


def test_the_page_of_the_host_has_every_route(tmp_path: Path) -> None:
    page = (DOCS / "reference/host.md").read_text()
    with closing(open_database("sqlite://")) as database:
        shares = divide_descriptors(1024)
        app = create_app(HostSettings(data_dir=tmp_path), database, "http://host", shares, lambda _token: None)
    paths = app.openapi()["paths"]
    listed = set(re.findall(r"\| `([A-Z]+ /\S*)`", page))
    hot = {
        "POST /v1/chat/completions",
        "POST /v1/embeddings",
        "GET /openapi.json",
        "WS /hub",
        "ANY /workspaces/{workspace_id}/api/{path}",
        "ANY /services/{name}/{path}",
    }
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert routes | hot == listed


def test_the_catalogs_on_the_page_of_models_are_some() -> None:
    page = (DOCS / "how-to/models.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    file, *others = (_File.model_validate(yaml.safe_load(example)) for example in examples)
    assert list(file.models) == ["default", "cheap", "embedding"]
    assert others
    assert file.providers["nextdoor"].stream_usage is False
