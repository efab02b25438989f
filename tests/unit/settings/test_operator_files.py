"""No file or folder that a setting names may be where the agent writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_runtime.errors import StartError
from agent_runtime.runtime.operator_files import require_out_of_reach
from agent_runtime.settings import Settings
from agent_runtime.workspace import Home


def test_each_path_of_the_settings_is_looked_at(tmp_path: Path) -> None:
    """The next one that is added too."""
    paths = [name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation)]
    inside = tmp_path / "workspace" / "any"
    for name in paths:
        if name == "data_dir":  # holds the workspace
            continue
        several = "tuple" in str(Settings.model_fields[name].annotation)
        given: dict[str, Any] = {name: (inside,) if several else inside}
        settings = Settings.model_construct(data_dir=tmp_path, watchdog="off", **given)
        with pytest.raises(StartError, match=f"AGENT_{name.upper()}: the agent can change"):
            require_out_of_reach(settings, Home(tmp_path))
