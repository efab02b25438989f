"""Makes a disk of an image: `python images/rootfs.py LAYOUT DISK`.

LAYOUT is a folder in the OCI layout, as `make image` writes it. DISK becomes an ext4 file system with the image's
files, and `image.json` beside it the image's configuration: what is started, as whom, with what environment.
The file system has no journal and little room, for it is meant to be mounted read-only. The same image gives the same
bytes. Anybody may do this: owners and times are written into the disk, not taken from the files that were unpacked.
Debian's own Python can run it.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
EPOCH = "315532800"
"""Every file's time, as in the layers."""
ID = "7b1f6a52-54a3-4d0b-9a0c-6f2f1f3f8400"
"""Of the file system and of its hashes."""
MOUNTS = ("proc", "sys", "dev", "run", "tmp", "data")
BLOCK, INODE, MIB = 4096, 512, 1024 * 1024
SECONDS = 300
"""Most that one program may take."""
Owners = dict[str, tuple[int, int]]
"""User and group by path; who is not in it is root's."""


class Layout:
    """An image on disk in the OCI layout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index = json.loads((folder / "index.json").read_text())
        self._manifest = self._json(index["manifests"][0]["digest"])
        while "manifests" in self._manifest:  # an index of platforms, as docker writes it
            self._manifest = self._json(self._manifest["manifests"][0]["digest"])

    def blob(self, digest: str) -> Path:
        return self._folder.joinpath("blobs", *digest.split(":", 1))

    def _json(self, digest: str) -> Any:
        return json.loads(self.blob(digest).read_text())

    def config(self) -> Any:
        return self._json(self._manifest["config"]["digest"])

    def layers(self) -> Iterator[Path]:
        for layer in self._manifest["layers"]:
            yield self.blob(layer["digest"])


# ---------------------------------------------------------------- the files


def unpack(layout: Layout, root: Path) -> Owners:
    """The image's files, each layer over those below it, and whose they are."""
    owners: Owners = {}
    for layer in layout.layers():
        with tarfile.open(layer) as archive:
            members = [_checked(member) for member in archive.getmembers()]
            for member in members:
                _apply_whiteout(root, member)
            # A device is the kernel's to make: /dev is mounted.
            kept = [one for one in members if not Path(one.name).name.startswith(WHITEOUT) and not one.isdev()]
            owners.update({str(PurePosixPath(one.name)): (one.uid, one.gid) for one in kept})
            archive.extractall(root, [_owned_by_us(one) for one in kept], numeric_owner=True, **_extract_options())  # noqa: S202
    return owners


def _checked(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The image was built here; still no name leads out of it."""
    for name in (member.name, member.linkname if member.islnk() else ""):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"a layer has a file {name!r}, which would lie outside of the image")
    return member


def _extract_options() -> dict[str, Any]:
    """Newer Pythons want to hear that set-user-ID bits and links to whole paths belong to an image."""
    return {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}


def _owned_by_us(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Unpacked as a file of whoever runs this."""
    mine = copy.copy(member)
    mine.uid, mine.gid = os.geteuid(), os.getegid()
    return mine


def _apply_whiteout(root: Path, member: tarfile.TarInfo) -> None:
    """What a layer says is gone. Its folders are the image's own: no link is followed to them."""
    path = root / member.name
    if path.name == OPAQUE:
        for gone in list(path.parent.iterdir()) if path.parent.is_dir() else ():
            _remove(gone)
    elif path.name.startswith(WHITEOUT):
        _remove(path.with_name(path.name.removeprefix(WHITEOUT)))
    elif path.is_symlink() or (path.exists() and not (path.is_dir() and member.isdir())):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ---------------------------------------------------------------- the disk


def make_disk(root: Path, owners: Owners, disk: Path) -> None:
    """An ext4 file system with the files below root."""
    used = sum(-(-path.lstat().st_size // BLOCK) * BLOCK + INODE for path in root.rglob("*"))
    disk.unlink(missing_ok=True)
    _run(
        *("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-b", str(BLOCK), "-m", "0", "-L", "agent", "-U", ID),
        *("-E", f"hash_seed={ID},lazy_itable_init=1,root_owner=0:0", "-d", str(root)),
        *(str(disk), f"{used * 108 // 100 // MIB + 24}M"),
    )
    with tempfile.NamedTemporaryFile("w", suffix=".debugfs") as orders:
        orders.writelines(f"{line}\n" for line in _debugfs_commands(root, owners))
        orders.flush()
        said = _run("debugfs", "-w", "-f", orders.name, str(disk)).splitlines()
    # How much was ever written is kept there, too, and differs with who writes.
    said += _run("debugfs", "-w", "-R", "set_super_value kbytes_written 0", str(disk)).splitlines()
    faults = [line for line in said if not line.startswith("debugfs 1.")]  # which names its version
    if faults:
        raise ValueError(f"debugfs: {faults[0]}")


def _debugfs_commands(root: Path, owners: Owners) -> Iterator[str]:
    """What tells debugfs whose a file is and when it was made."""
    for path in (root, *sorted(root.rglob("*"))):
        name = path.relative_to(root).as_posix()
        if any(sign in name for sign in '"\n'):
            raise ValueError(f"the image has a file {name!r}, whose name cannot be given to debugfs")
        uid, gid = owners.get(name, (0, 0))
        here = path.lstat()
        given = {"uid": uid, "gid": gid} if (uid, gid) != (here.st_uid, here.st_gid) else {}
        times = dict.fromkeys(("atime", "ctime", "mtime", "crtime"), f"@{EPOCH}")
        for field, value in {**given, **times}.items():
            yield f'set_inode_field "/{"" if name == "." else name}" {field} {value}'


def _run(*command: str) -> str:
    """What it says to stderr. Raises CalledProcessError."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    env = {**os.environ, "PATH": path, "E2FSPROGS_FAKE_TIME": EPOCH, "LC_ALL": "C"}
    done = subprocess.run(
        command, check=False, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=SECONDS
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command[0], stderr=done.stderr)
    return done.stderr


def main(source: str, target: str) -> None:
    layout, disk = Layout(Path(source)), Path(target).absolute()
    part = disk.with_name(f"{disk.name}.part")
    with tempfile.TemporaryDirectory(prefix="rootfs-", dir=disk.parent) as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o755)
        owners = unpack(layout, root)
        for name in MOUNTS:
            if not (root / name).exists():
                (root / name).mkdir()
                (root / name).chmod(0o755)
        make_disk(root, owners, part)
    disk.with_name("image.json").write_text(json.dumps(layout.config()["config"], indent=1, sort_keys=True) + "\n")
    part.rename(disk)
    print(f"{disk}: {disk.stat().st_size // MIB} MiB", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except subprocess.CalledProcessError as failed:
        sys.exit(f"rootfs: {failed.cmd} failed:\n{failed.stderr.strip()}")
    except (OSError, ValueError) as wrong:
        sys.exit(f"rootfs: {wrong}")
