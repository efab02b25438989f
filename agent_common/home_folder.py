"""The home folder of the user who runs a program, where there is one."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import StartError


def home_folder() -> Path | None:
    """Return the home folder; None for a user without one: neither HOME nor the system names any, or HOME is empty."""
    if os.environ.get("HOME") == "":
        return None  # Python takes it for the root
    try:
        return Path.home()
    except RuntimeError:
        return None


def below_home(relative: str, variable: str) -> Path:
    """Return the default of a setting, a path below the home folder. Raises StartError that names the setting's
    variable."""
    home = home_folder()
    if home is None:
        raise StartError(f"this user has no home folder: set {variable}")
    return home / relative
