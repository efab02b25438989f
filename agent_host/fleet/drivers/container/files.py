"""The folders and the secrets that are mounted into a container."""

from __future__ import annotations

import os
from pathlib import Path

from ...driver import LaunchRequest
from ..process import write_secret

USER = "10001:10001"
_SECRETS = ("token", "mesh.token", "mediation.key")


def user_ids() -> tuple[int, int]:
    uid, gid = (int(part) for part in USER.split(":"))
    return uid, gid


def make_user_dir(path: Path) -> None:
    """Create a folder of the runtime's user once. The host never writes to it later: its content is the guest's."""
    if not path.exists():
        path.mkdir(mode=0o700, parents=True)
        if os.geteuid() == 0:
            os.chown(path, *user_ids())


def write_secrets(folder: Path, launch: LaunchRequest) -> None:
    """Write the secrets into a folder of the host that is mounted read-only."""
    folder.mkdir(mode=0o755, exist_ok=True)
    delete_secrets(folder)
    for name, text in zip(_SECRETS, (launch.token, launch.mesh_token, launch.mediation_key), strict=True):
        if text:
            write_secret(folder / name, text)
            if os.geteuid() == 0:
                os.chown(folder / name, *user_ids(), follow_symlinks=False)


def delete_secrets(folder: Path) -> None:
    for name in _SECRETS:
        (folder / name).unlink(missing_ok=True)
