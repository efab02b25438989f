"""A disposable container: `python -m tests.redteam.container ROOT DISK INSTALL REPOSITORY GROUND`.

It has namespaces of its own for files, processes, network, IPC and names, and a root that lives in memory, but for
/disk: that is the folder DISK, for who made it to remove. Nothing else that happens in it is left when it ends, and it
ends with its parent. In it the driver runs, and everything that the driver
starts: the scripted model, the runtime, the canaries.

With `own` users its root is nobody outside: that is where commands may run bare. With `machine` users it is the
machine's root without the capabilities that reach past namespaces: so the runtime is held as it is on a real machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

from . import kernel
from .ground import Ground, hidden_programs

FIRST_ID, IDS = 200_000, 65_536
"""What the container's root, and all its users, are outside when its users are its own."""
SIZE = 5 * 1024**3
"""Bytes of memory that its files may take."""
ADDRESSES = ("169.254.169.254", "10.0.0.5", "192.168.1.1", "93.184.216.34")
"""The cloud's metadata, two private hosts and a public one: stand-ins on the container's own loopback."""
SECRET = "canary-etc-4b1d9e"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "protocols", "services", "ssl")
ACCOUNTS = {
    "passwd": "root:x:0:0::/root:/bin/bash\nsomebody:x:1000:1000::/home/somebody:/bin/bash\nnobody:x:65534:65534::/:\n",
    "group": "root:x:0:\nshadow:x:42:\nsomebody:x:1000:\nnogroup:x:65534:\n",
    "shadow": f"root:{SECRET}:19000:0:99999:7:::\n",
    "hosts": "127.0.0.1 localhost\n",
    "resolv.conf": "nameserver 10.0.0.5\noptions timeout:1 attempts:1\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "crontab": "",
}
NEVER = (9, 16, 17, 22, 24, 25, 27, 29, 30, 32, 33, 34, 35, 36, 37, 38, 39, 40)
"""Capabilities: immutable files, modules, raw I/O, reboot, limits, clocks, devices, audit, MAC, syslog, alarms, ..."""


def furnish(root: Path, install: Path, repository: Path, owner: int) -> None:
    """The files of the container. `install` is where the virtual environment expects this package to be."""
    kernel.mount("tmpfs", root, "tmpfs", kernel.NODEV, f"size={SIZE},mode=755")
    kernel.bind(Path("/usr"), root / "usr")
    for name in LINKS:
        real = Path("/", name)
        if real.is_symlink():
            (root / name).symlink_to(real.readlink())
        elif real.is_dir():
            kernel.bind(real, root / name)
    _etc(root / "etc")
    for name, mode in {
        **dict.fromkeys(("tmp", "var/tmp"), 0o1777),
        **dict.fromkeys(
            ("root", "run", "home/somebody", "var/log", "var/spool/cron", "proc", "data", "dev/pts"), 0o755
        ),
        "dev/shm": 0o1777,
    }.items():
        (root / name).mkdir(parents=True)
        (root / name).chmod(mode)
    _dev(root / "dev")
    for home in ("root", "home/somebody"):
        (root / home / ".ssh").mkdir()
        (root / home / ".ssh/id_ed25519").write_text(f"{SECRET}\n")
    _program(root, install, repository, owner)
    _give(root, owner)


def _dev(dev: Path) -> None:
    for name in DEVICES:
        kernel.bind(Path("/dev", name), dev / name, writable=True)
    (dev / "ptmx").symlink_to("pts/ptmx")
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (dev / name).symlink_to(target)


def _give(root: Path, owner: int) -> None:
    """All that was made here to its owner, and nothing that is only shown here."""
    own = root.stat().st_dev
    for at, folders, files in os.walk(root):
        folders[:] = [name for name in folders if os.lstat(os.path.join(at, name)).st_dev == own]
        for path in (at, *(os.path.join(at, name) for name in files)):
            if os.lstat(path).st_dev == own:
                os.chown(path, owner, owner, follow_symlinks=False)


def _etc(etc: Path) -> None:
    etc.mkdir()
    (etc / "cron.d").mkdir()
    for name in ETC:
        if Path("/etc", name).exists():
            kernel.bind(Path("/etc", name), etc / name)
    for name, text in ACCOUNTS.items():
        (etc / name).write_text(text)
    (etc / "shadow").chmod(0o640)


def _program(root: Path, install: Path, repository: Path, owner: int) -> None:
    """The package as if it were installed, the virtual environment under a layer that takes what is written."""
    base, there = Path(sys.base_prefix), root / install.relative_to("/")
    if not base.is_relative_to("/usr"):
        kernel.bind(base, root / base.relative_to("/"))
    shutil.copytree(repository / "tests/redteam", there / "tests/redteam")
    shutil.copy(repository / "tests/pulse.py", there / "tests")
    environment = Path(sys.prefix).resolve()
    shown = root / environment.relative_to("/")
    kernel.bind(environment, shown)
    for folder in environment.glob("lib/python3*/site-packages"):
        layer = root / "layer"
        (layer / "work").mkdir(parents=True)
        for package in ("agent_common", "agent_runtime", "agent_testing"):
            shutil.copytree(repository / package, layer / "upper" / package)
        _give(layer, owner)
        where = shown / folder.relative_to(environment)
        kernel.mount("overlay", where, "overlay", 0, f"lowerdir={folder},upperdir={layer}/upper,workdir={layer}/work")


def become_own_root() -> None:
    """A user namespace in which all ids that programs know exist, and root is nobody outside."""
    reading, writing = os.pipe()
    me = os.getpid()
    mapper = os.fork()
    if mapper == 0:
        os.read(reading, 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{me}/{name}").write_text(f"0 {FIRST_ID} {IDS}\n")
        os._exit(0)
    kernel.unshare(kernel.NEWUSER)
    os.write(writing, b"g")
    if os.waitpid(mapper, 0)[1] != 0:
        raise OSError("the users of the container could not be mapped")
    for descriptor in (reading, writing):
        os.close(descriptor)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    kernel.be_dumpable()


def live(root: Path, command: list[str], home: Path) -> int:
    """The life of process 1: the last touches, then the command, and everybody's funeral. Its exit code."""
    kernel.die_with_parent()
    kernel.set_host_name("arena")
    kernel.mount("none", Path("/"), flags=kernel.REC | kernel.PRIVATE)
    kernel.mount(root, root, flags=kernel.BIND | kernel.REC)
    kernel.mount("proc", root / "proc", "proc")
    kernel.mount("devpts", root / "dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    kernel.mount("tmpfs", root / "dev/shm", "tmpfs", kernel.NOSUID | kernel.NODEV, "size=256m,mode=1777")
    kernel.pivot(root)
    kernel.loopback(*ADDRESSES)
    for capability in NEVER:
        kernel.drop_bound(capability)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"}
    child = os.fork()
    if child == 0:
        os.chdir(home)
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(home)}
        os.execvpe(command[0], command, environment)  # noqa: S606  no shell is wanted
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status) & 0xFF


def main(root: str, disk: str, install: str, repository: str, described: str) -> int:
    ground = Ground.from_json(described)
    kernel.die_with_parent()
    kernel.unshare(kernel.NEWNS)
    kernel.mount("none", Path("/"), flags=kernel.REC | kernel.PRIVATE)
    own = ground.users == "own"
    owner = FIRST_ID if own else 0
    furnish(Path(root), Path(install), Path(repository), owner)
    os.chown(disk, owner, owner)
    Path(disk).chmod(0o755)
    kernel.bind(Path(disk), Path(root, "disk"), writable=True)
    for program in hidden_programs(ground.backend):
        kernel.mount("/dev/null", Path(root, program.lstrip("/")), flags=kernel.BIND)
    if own:
        become_own_root()
    kernel.unshare(kernel.NEWNS | kernel.NEWPID | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS | kernel.NEWCGROUP)
    command = [str(Path(sys.prefix).resolve() / "bin/python"), "-m", "tests.redteam.driver", described]
    first = os.fork()
    if first == 0:
        code = 70
        try:
            code = live(Path(root), command, Path(install))
        except OSError:
            traceback.print_exc()
        finally:
            os._exit(code)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
