"""The pages say what the code does."""

from __future__ import annotations

from pathlib import Path

from agent_runtime.api import Front, create_app
from agent_runtime.cli import settings_help
from agent_runtime.clock import SystemClock
from agent_runtime.loop import EventBus
from agent_runtime.settings import PREFIX, Settings, load_settings
from scripts import settings, tools

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_of_settings_is_up_to_date() -> None:
    assert settings.PAGE.read_text() == settings.page(), "run: make docs"


def test_the_table_of_tools_is_up_to_date() -> None:
    assert tools.PAGE.read_text() == tools.page(), "run: make docs"
    assert "| `bash` | `command`" in tools.table()


def test_every_setting_is_a_line_of_help() -> None:
    text = settings_help()
    for name in Settings.model_fields:
        assert f"{PREFIX}{name.upper()}" in text


def test_every_route_is_on_the_page_of_the_http_face(tmp_path: Path) -> None:
    app = create_app(Front(load_settings(data_dir=tmp_path), 0.0, EventBus(SystemClock())), SystemClock())
    text = (DOCS / "http.md").read_text()
    paths = app.openapi()["paths"]
    assert "/task" in paths
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text
