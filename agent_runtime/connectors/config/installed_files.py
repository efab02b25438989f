"""Find the folders that a local server needs to run, and advise about files that it cannot read.

Servers are confined, and configurations of other products do not say where a program is installed. So the virtual
environment, the `node_modules` and the interpreter of a command are found and made readable. The operator must name all
other folders; the advice says how. Nothing that the agent can write decides what is found: a program in the workspace
sees the workspace.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_common.home_folder import home_folder

from ...sandbox import COMMAND_PATH
from .config import LocalServer
from .trusted_paths import is_changeable
from .unreadable_files import find_unreadable

SYSTEM_FOLDERS = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/dev")))
"""Folders that every confined program can read."""
MAX_LINKS = 16
DOWNLOADERS = frozenset({"npx", "uvx", "bunx", "pnpx"})
CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".jar", ".sh", ".rb")
PROJECT_FILES = ("package.json", "pyproject.toml", "requirements.txt", ".git")


@dataclass(frozen=True, slots=True)
class InstalledFiles:
    """A program, ready to be started."""

    argv: tuple[str, ...]
    folders: tuple[Path, ...]
    """Folders that it must be able to read besides those that the operator named."""
    env: Mapping[str, str]


def find_installation(
    server: LocalServer, data_dir: Path, environment: Mapping[str, str], changeable: Sequence[Path] = ()
) -> InstalledFiles:
    """Find the program on the PATH that servers get, then on the runtime's own, and the folders that it needs. Reads
    the disk.

    `changeable`: folders in which the agent can write."""
    name, *arguments = server.argv
    env: dict[str, str] = {}
    own = server.env.get("PATH", COMMAND_PATH)
    found = shutil.which(name, path=own)
    if found is None and (found := shutil.which(name, path=environment.get("PATH"))) and "PATH" not in server.env:
        env["PATH"] = os.pathsep.join((str(Path(found).parent), own))  # npx needs the node beside it
    program = Path(server.cwd or "/", found or name)
    scripts = [Path(word) for word in arguments if word.startswith("/") and Path(word).is_file()]
    modules = (one for script in scripts for one in _node_modules(script) if not is_changeable(one, changeable))
    folders = [*_folders_behind_links(program, changeable), *modules]
    shown = tuple(dict.fromkeys(folder for folder in folders if _may_be_shown(folder, data_dir)))
    return InstalledFiles((found or name, *arguments), shown, env)


def confinement_advice(
    server: LocalServer,
    found: InstalledFiles,
    workspace: Path,
    uid: int | None = None,
    *,
    by_path: bool = False,
    changeable: Sequence[Path] = (),
) -> list[str]:
    """Return the faults that a confined program will have, each with its fix. Reads the disk.

    `uid` and `by_path`: as in the confinement. `changeable`: folders in which the agent can write.
    """
    program = Path(server.argv[0]).name
    lines: list[str] = []
    if not Path(server.cwd or "/", found.argv[0]).exists():
        lines.append(f"command: there is no program {server.argv[0]}; install it, or write its absolute path")
    elif program in CONTAINERS:
        lines.append(f"command: {program} cannot be used from inside; run the container elsewhere and give its url")
    if program in DOWNLOADERS and server.network is None:
        lines.append(f'command: {program} downloads what it runs; add "network": true, or install the program')
    visible = (*found.folders, *server.read, *((server.cwd,) if server.cwd else ()), workspace, *SYSTEM_FOLDERS)
    lines += [
        f"read: {folder} is left out, as commands can change where it leads; name a folder outside of the workspace"
        for folder in server.read
        if is_changeable(folder, changeable)
    ]
    unseen: list[Path] = []
    for number, word in enumerate(server.argv[1:]):
        path = Path(word.partition("=")[2] if word.startswith("-") else word)
        if path.is_absolute() and len(path.parts) > 1 and path.exists():
            if not any(path.resolve().is_relative_to(folder.resolve()) for folder in visible):
                unseen.append(path)
        elif word.endswith(SCRIPTS) and server.cwd is None and not path.is_absolute():
            lines.append(f'args[{number}]: {word} is a relative path; add "cwd": its folder')
    if unseen:
        wanted = ", ".join(dict.fromkeys(f'"{_project_of(path)}"' for path in unseen))
        given = "".join(f'"{folder}", ' for folder in server.read)
        fix = f'add "read": [{given}{wanted}], which is --read of `agent mcp add`'
        lines.append(f"args: it cannot see {', '.join(map(str, unseen))}; {fix}")
    scripts = [Path(word) for word in server.argv[1:] if word.startswith("/") and Path(word).is_file()]
    given = [*(("read", folder) for folder in server.read), *(("command", folder) for folder in found.folders)]
    given += [*([("cwd", server.cwd)] if server.cwd else []), *(("args", script) for script in scripts)]
    return [*lines, *dict.fromkeys(find_unreadable(given, uid, by_path=by_path))]


def _folders_behind_links(program: Path, changeable: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders of a program, and of the files that it links to; none from the first on that the agent can
    change."""
    for _ in range(MAX_LINKS):
        if is_changeable(program, changeable):
            return
        yield from _installation_folders(program, changeable)
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / program.readlink()))
    yield from _installation_folders(program.resolve(), changeable)


def _installation_folders(program: Path, changeable: Sequence[Path]) -> Iterator[Path]:
    folder = program.parent
    root = program.parent.parent
    if modules := [one for one in program.parents if one.name == "node_modules"]:
        yield modules[-1]
    elif (
        folder.name == "bin" and (root / "pyvenv.cfg").is_file() and not is_changeable(root / "pyvenv.cfg", changeable)
    ):
        yield root
        if (base := _base_python(root)) is not None:
            yield from _folders_behind_links(base, changeable)
    else:
        yield folder
        if folder.name == "bin" and (root / "lib").is_dir() and not is_changeable(root / "lib", changeable):
            yield root / "lib"


def _base_python(environment: Path) -> Path | None:
    """Return the folder of the interpreter of a virtual environment, or None."""
    try:
        lines = (environment / "pyvenv.cfg").read_text(errors="replace").splitlines()
    except OSError:
        return None
    fields = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    return Path(fields["home"], "python3") if fields.get("home", "").startswith("/") else None


def _node_modules(script: Path) -> Iterator[Path]:
    """Yield the package folders in which Node looks for a script's imports."""
    if script.suffix in (".js", ".mjs", ".cjs", ".ts"):
        yield from (one for parent in script.parents if (one := parent / "node_modules").is_dir())


def _may_be_shown(folder: Path, data_dir: Path) -> bool:
    """Whether a folder may be made readable: not a system folder, nor the runtime's data, nor a whole home
    directory."""
    wide = len(folder.parts) <= 2 or folder.parent == Path("/home") or folder == home_folder()
    own = folder.is_relative_to(data_dir) or data_dir.is_relative_to(folder)
    return not wide and not own and folder.is_dir() and not any(folder.is_relative_to(one) for one in SYSTEM_FOLDERS)


def _project_of(path: Path) -> Path:
    """Return the folder to make readable for a path: the path itself, or the project of a file."""
    if path.is_dir():
        return path
    projects = (one for one in path.parents if any((one / name).exists() for name in PROJECT_FILES))
    return next(projects, path.parent)
