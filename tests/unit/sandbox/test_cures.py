"""Where commands cannot be confined, the cures are named that exist on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_common.confinement_cures import confinement_cures

USERNS = "user/max_user_namespaces"
APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
CLONE = "kernel/unprivileged_userns_clone"
ROOT, PROFILE, OFF = "--user 0", "seccomp=images/seccomp.json", "AGENT_CONFINEMENT=off"

MACHINES = {
    "a container, an ordinary user": ((".dockerenv",), {}, 1000, True, [ROOT, PROFILE, OFF]),
    "podman, an ordinary user": (("run/.containerenv",), {}, 1000, True, [ROOT, PROFILE, OFF]),
    "a container on Ubuntu": ((".dockerenv",), {APPARMOR: "1"}, 1000, True, [ROOT, "apparmor=unconfined", OFF]),
    "a container, root": ((".dockerenv",), {}, 0, True, [PROFILE, OFF]),
    "a pod without bubblewrap": (("var/run/secrets/kubernetes.io",), {}, 1000, False, ["install bubblewrap", ROOT]),
    "Ubuntu": ((), {APPARMOR: "1"}, 1000, True, ["profile with userns", f"sysctl {APPARMOR.replace('/', '.')}=0", OFF]),
    "no user namespaces": ((), {USERNS: "0"}, 1000, True, ["user.max_user_namespaces=15000", OFF]),
    "an old Debian": ((), {CLONE: "0"}, 1000, True, ["kernel.unprivileged_userns_clone=1", OFF]),
    "nothing known": ((), {USERNS: "15000", APPARMOR: "0"}, 1000, True, ["as root", OFF]),
    "not installed": ((), {}, 1000, False, ["install bubblewrap", OFF]),
}


@pytest.mark.parametrize(
    ("mounts", "inside"),
    [
        ("22 1 0:30 / / rw,relatime master:9 - overlay overlay rw,lowerdir=/var/lib/containerd/1\n", True),
        ("30 22 0:5 / /proc rw - proc proc rw\n22 1 0:30 / / rw - fuse.fuse-overlayfs fuse-overlayfs rw\n", True),
        (
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 0:9 / /var/lib/docker/overlay2/1 rw - overlay overlay rw\n",
            False,
        ),
    ],
    ids=["containerd", "rootless", "the machine of containers"],
)
def test_a_container_is_known_by_its_root(tmp_path: Path, mounts: str, *, inside: bool) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "mountinfo").write_text(mounts)
    cures = "; ".join(confinement_cures(tmp_path, uid=1000, has_bwrap=True))
    assert (ROOT in cures and PROFILE in cures) is inside


@pytest.mark.parametrize(("files", "settings", "uid", "bwrap", "words"), MACHINES.values(), ids=MACHINES.keys())
def test_the_cures_are_those_of_the_machine(
    tmp_path: Path, files: tuple[str, ...], settings: dict[str, str], uid: int, bwrap: bool, words: list[str]
) -> None:
    for name in files:
        (tmp_path / name).mkdir(parents=True)
    for name, value in settings.items():
        (tmp_path / "proc" / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / "sys" / name).write_text(f"{value}\n")
    cures = confinement_cures(tmp_path, uid=uid, has_bwrap=bwrap)
    assert all(word in "; ".join(cures) for word in words), cures
    assert ("install bubblewrap" in "; ".join(cures)) is not bwrap
    if uid == 0:
        assert ROOT not in "; ".join(cures)
