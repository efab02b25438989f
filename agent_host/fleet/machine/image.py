"""The image that machines boot: a kernel, an initrd, an ext4 root disk, and the command to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ...errors import StartError

KERNEL = "vmlinuz"
INITRD = "initrd.gz"
ROOT = "rootfs.ext4"
CONFIG = "image.json"
_LARGEST_CONFIG = 1 << 20
_USER = re.compile(r"(\d{1,9})(?::(\d{1,9}))?")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Image:
    folder: Path
    command: tuple[str, ...]
    uid: int
    gid: int
    cwd: str
    env: dict[str, str]

    @property
    def kernel(self) -> Path:
        return self.folder / KERNEL

    @property
    def initrd(self) -> Path:
        return self.folder / INITRD

    @property
    def root(self) -> Path:
        return self.folder / ROOT


def load_image(folder: Path) -> Image:
    """Read an image from a folder with an `image.json`, the `config` of an OCI image. Raises StartError if it is
    incomplete or invalid."""
    for name in (KERNEL, INITRD, ROOT, CONFIG):
        if not (folder / name).is_file():
            makes = "`make rootfs .image/initrd.gz` builds it in .image"
            raise StartError(f"MESH_VM_IMAGE: {folder} has no {name}; {makes}")
    path = folder / CONFIG
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise ValueError("it is too large")
        return _image(folder, _Config.model_validate_json(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise StartError(f"MESH_VM_IMAGE: {path}: {error}") from error


class _Config(BaseModel):
    """The parts of an OCI image's `config` that are used here."""

    model_config = ConfigDict(alias_generator=lambda name: "WorkingDir" if name == "cwd" else name.title())

    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    user: str = ""
    env: list[str] | None = None
    cwd: str = ""


def _image(folder: Path, config: _Config) -> Image:
    command = (*(config.entrypoint or ()), *(config.cmd or ()))
    if not command:
        raise ValueError("it has neither Entrypoint nor Cmd")
    user = _USER.fullmatch(config.user or "0")
    if user is None:
        raise ValueError(f"User is {config.user!r}; it must be numeric, such as 10001:10001")
    pairs = (line.partition("=") for line in config.env or ())
    env = {"PATH": _DEFAULT_PATH, **{name: value for name, _, value in pairs}}
    uid = int(user[1])
    return Image(folder, command, uid, int(user[2] or uid), config.cwd or "/", env)
