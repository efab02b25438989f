"""Starts a worker out of the very package that the server runs: `python -I boot.py FOLDER PLUGIN WORKSPACE`.

By path and not by name: a checkout is found by listing the folder around the package, and who is held by Landlock may
not list that one.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from os.path import abspath, dirname

PACKAGE = dirname(dirname(dirname(abspath(__file__))))


def boot() -> None:
    spec = spec_from_file_location("agent_runtime", f"{PACKAGE}/__init__.py", submodule_search_locations=[PACKAGE])
    if spec is None or spec.loader is None:
        sys.exit(f"{PACKAGE} is no package")
    package = sys.modules["agent_runtime"] = module_from_spec(spec)
    spec.loader.exec_module(package)

    from agent_runtime.skills.worker.main import main

    main()


if __name__ == "__main__":
    boot()
