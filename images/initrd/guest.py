"""The guest's first process: mounts, starts the runtime as the image's user, buries the dead, powers off.

What it is to do stands on the second disk, which the host writes anew for each boot: `AGENTBOOT1`, the length, JSON.
Nothing of it is on the kernel's command line, which every process of the guest can read. A second process answers the
host on a vsock port: `{"do": "ping" | "stop" | "exec", ...}`, one line of JSON each way; another port leads the host,
and nobody else, to the runtime's own HTTP face. Only the standard library: this file is copied into the guest as it is,
and runs on the image's own Python.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

CONFIG_DISK, DATA_DISK = "/dev/vdb", "/dev/vdc"
MAGIC = b"AGENTBOOT1"
LONGEST_CONFIG = 1 << 20
LONGEST_LINE, LONGEST_OUTPUT = 1 << 20, 1 << 20
MOST_ANSWERS = 8
IDLE_SECONDS = 120
HOST_CID = 2
SECRETS = "/run/secrets"
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_RESTART, _DISABLE_CAD = 0x01234567, 0x00000000
_libc = ctypes.CDLL(None, use_errno=True)
Config = dict[str, Any]


def log(text: str) -> None:
    print(f"agent-init: {text}", flush=True)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    made = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    if made:
        raise OSError(ctypes.get_errno(), f"cannot mount {target}")


def read_config(path: str = CONFIG_DISK) -> Config:
    with open(path, "rb") as disk:
        head = disk.read(len(MAGIC) + 8)
        length = struct.unpack("<Q", head[len(MAGIC) :])[0]
        if not head.startswith(MAGIC) or length > LONGEST_CONFIG:
            raise ValueError("the second disk is not one of ours")
        return json.loads(disk.read(length))


def set_up(config: Config) -> None:
    quiet = _MS_NOSUID | _MS_NODEV
    os.makedirs("/dev/pts", exist_ok=True)
    mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "mode=0620,ptmxmode=0666")
    os.makedirs("/dev/shm", exist_ok=True)  # noqa: S108  where it has to be
    mount("shm", "/dev/shm", "tmpfs", quiet, "mode=1777,size=64m")  # noqa: S108
    mount("tmp", "/tmp", "tmpfs", quiet, f"mode=1777,size={int(config.get('tmp_mb', 64))}m")  # noqa: S108
    if os.path.exists(DATA_DISK):
        # A killed machine is a power cut: what commands write is on the disk after a second, not after half a minute.
        mount(DATA_DISK, "/data", "ext4", quiet, "commit=1,nodelalloc")
    socket.sethostname(str(config.get("hostname", "agent"))[:63])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:  # loopback is all the network there is
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
    write_secrets(config)
    os.symlink("/proc/self/fd", "/dev/fd")


def write_secrets(config: Config) -> None:
    """In memory, for the runtime's user alone."""
    user, group = config["uid"], config["gid"]
    os.makedirs(SECRETS, mode=0o755, exist_ok=True)
    for name, content in config.get("secrets", {}).items():
        handle = os.open(f"{SECRETS}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o400)
        with os.fdopen(handle, "w") as file:
            os.fchown(handle, user, group)
            file.write(content)


# ---------------------------------------------------------------- what the host asks


def serve_control(config: Config) -> None:
    """A process of its own, so that its children are not buried by the first one. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # its helpers bury themselves
    doors = {_open(int(config["control_port"])): _handle_request, _open(int(config["http_port"])): _proxy_http}
    log(f"answers on port {config['control_port']}, {time.monotonic():.2f} s after the kernel began")
    while True:
        for door in select.select(list(doors), [], [])[0]:
            client, (cid, _) = door.accept()
            if cid == HOST_CID and not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in doors:
                    one.close()
                os._exit(doors[door](client, config))
            client.close()


def _open(port: int) -> socket.socket:
    server = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    server.bind((0xFFFFFFFF, port))
    server.listen(MOST_ANSWERS)
    return server


def _proxy_http(client: socket.socket, config: Config) -> int:
    """Passes bytes on between the host and the runtime until both have ended, or nothing comes for long."""
    try:
        with client, socket.create_connection(("127.0.0.1", int(config["http_port"])), 5) as face:
            others = {client: face, face: client}
            for one in others:
                one.settimeout(IDLE_SECONDS)
            reading = [client, face]
            while reading and (ready := select.select(reading, [], [], IDLE_SECONDS)[0]):
                for one in ready:
                    if data := one.recv(1 << 16):
                        others[one].sendall(data)
                    else:
                        others[one].shutdown(socket.SHUT_WR)
                        reading.remove(one)
    except OSError:
        return 1
    return 0


def _handle_request(client: socket.socket, config: Config) -> int:
    client.settimeout(30)
    try:
        with client, client.makefile("rwb") as line:
            asked = json.loads(line.readline(LONGEST_LINE))
            line.write(json.dumps(_execute(asked, config)).encode() + b"\n")
            line.flush()
            if asked["do"] == "stop":
                os.kill(1, signal.SIGTERM)
    except (OSError, ValueError, KeyError, TypeError) as error:
        log(f"a request of the host failed: {error}")
        return 1
    return 0


def _execute(asked: dict[str, Any], config: Config) -> dict[str, Any]:
    if asked["do"] == "exec":
        return _run(asked, config)
    return {"ok": True, "uptime": round(time.monotonic(), 3)}


def _run(asked: dict[str, Any], config: Config) -> dict[str, Any]:
    uid, gid = (0, 0) if asked.get("root") else (config["uid"], config["gid"])
    try:
        ended = subprocess.run(
            [str(part) for part in asked["argv"]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=float(asked.get("timeout", 25)),
            user=uid,
            group=gid,
            extra_groups=[],
            cwd="/",
            env=config["env"],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"code": None, "stdout": "", "stderr": "it took too long"}
    except OSError as error:
        return {"code": 127, "stdout": "", "stderr": str(error)}
    out, err = (text[:LONGEST_OUTPUT].decode("utf-8", "replace") for text in (ended.stdout, ended.stderr))
    return {"code": ended.returncode, "stdout": out, "stderr": err}


# ---------------------------------------------------------------- the runtime


def start_runtime(config: Config) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        os.setgroups([])
        os.setgid(config["gid"])
        os.setuid(config["uid"])
        _libc.prctl(38, 1, 0, 0, 0)  # no new privileges
        os.chdir(config.get("cwd") or "/")
        os.execvpe(config["command"][0], config["command"], config["env"])  # noqa: S606  the point of it
    except OSError as error:
        log(f"cannot start {config['command'][0]}: {error}")
    finally:
        os._exit(127)


def start_control(config: Config) -> int:
    child = os.fork()
    if not child:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        try:
            serve_control(config)
        finally:
            os._exit(1)
    return child


def run_runtime(config: Config) -> str:
    """Until the runtime has ended; how it has, in words."""
    runtime = start_runtime(config)
    log(f"runtime started {time.monotonic():.2f} s after the kernel began")

    def stop(*_: object) -> None:
        _signal_group(runtime, signal.SIGTERM)
        signal.alarm(int(config.get("grace", 15)) or 1)

    def insist(*_: object) -> None:
        _signal_group(runtime, signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)  # ctrl-alt-del
    signal.signal(signal.SIGALRM, insist)
    answering = start_control(config)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == answering:
            time.sleep(0.2)
            answering = start_control(config)
        elif pid == runtime:
            code = os.waitstatus_to_exitcode(status)
            return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _signal_group(runtime: int, number: signal.Signals) -> None:
    try:
        os.killpg(runtime, number)
    except ProcessLookupError:
        return


def power_off() -> None:
    """The monitor ends when the guest restarts. What was written is on the disk by then."""
    for number, seconds in ((signal.SIGTERM, 0.2), (signal.SIGKILL, 0.1)):
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            break
        time.sleep(seconds)
    os.sync()
    _libc.umount2(b"/data", 0)
    _libc.reboot(_RESTART)


def main() -> None:
    _libc.reboot(_DISABLE_CAD)
    try:
        config = read_config()
        set_up(config)
        log(f"the runtime {run_runtime(config)}")
    except Exception as error:  # noqa: BLE001  the first process must not end: the kernel would panic
        log(f"{type(error).__name__}: {error}")
    signal.alarm(0)
    power_off()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main()
