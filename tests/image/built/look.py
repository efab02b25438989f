"""Run inside the image: what lies there, as JSON."""

import importlib.util
import json
import os
import pathlib
import shutil
import sysconfig

PROGRAMS = ("pip", "pip3", "npm", "node", "apt", "apt-get", "gcc", "cc", "g++", "make", "curl", "wget", "git", "sudo")
MODULES = (
    *("pip", "ensurepip", "setuptools", "pytest"),
    *("agent_host", "agent_testing", "sqlalchemy", "alembic", "typer", "rich", "structlog", "ddgs"),
)
FOLDERS = ("/", "/opt", "/usr", "/etc", "/home/agent", "/data", "/tmp")
NOT_OURS = {"test", "tests", "lib2to3", "dist-packages"}

missing: list[str] = []
timed: list[str] = []
for root in (sysconfig.get_path("purelib"), os.path.dirname(os.__file__)):
    for path in pathlib.Path(root).rglob("*.py"):
        if NOT_OURS & set(path.parts):
            continue
        compiled = pathlib.Path(importlib.util.cache_from_source(str(path)))
        if not compiled.exists():
            missing.append(str(path))
        elif compiled.read_bytes()[4] != 1:  # neither the time nor the text of the source is looked at
            timed.append(str(path))
files = (path for folder in ("/usr", "/opt") for path in pathlib.Path(folder).rglob("*"))
looked = {
    "missing": missing,
    "timed": timed,
    "bits": [str(path) for path in files if not path.is_symlink() and path.is_file() and path.stat().st_mode & 0o6000],
    "found": [name for name in PROGRAMS if shutil.which(name)],
    "modules": [name for name in MODULES if importlib.util.find_spec(name)],
    "uid": os.getuid(),
    "writable": [folder for folder in FOLDERS if os.access(folder, os.W_OK)],
}
print(json.dumps(looked))
