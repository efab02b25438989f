"""Start a worker from the same package that the server runs: `python -I boot.py FOLDER PLUGIN WORKSPACE`.

The package is loaded by its path: to find a checkout by name Python lists the folder around it, which Landlock does not
allow here.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from os.path import abspath, dirname

PACKAGES_FOLDER = dirname(dirname(dirname(dirname(abspath(__file__)))))


def boot() -> None:
    for name in ("agent_common", "agent_runtime"):
        load_package(name, f"{PACKAGES_FOLDER}/{name}")

    from agent_runtime.skills.worker.main import main

    main()


def load_package(name: str, folder: str) -> None:
    spec = spec_from_file_location(name, f"{folder}/__init__.py", submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        sys.exit(f"{folder} is not a package")
    package = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    boot()
