from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from agent_runtime.sandbox import SandboxSpec
from agent_runtime.sandbox.spec import mounts

HOME = Path("/srv/agent")
BOX = SandboxSpec(
    HOME / "workspace", writable=(HOME / "workspace", HOME / "scratch" / "s1"), readable=(HOME / "skills",)
)


def test_a_box_shows_what_it_names_and_hides_the_rest_of_the_home() -> None:
    plan = mounts.plan_mounts(BOX, (HOME,), ())
    under = [(mount.kind, mount.target) for mount in plan if mount.target.is_relative_to(HOME)]
    assert under == [
        ("mask", HOME),
        ("read", HOME / "skills"),
        ("write", HOME / "workspace"),
        ("write", HOME / "scratch" / "s1"),
    ]


def test_a_home_around_everything_hides_nothing_that_is_needed() -> None:
    plan = [mount.target for mount in mounts.plan_mounts(BOX, (Path("/usr"),), ())]
    assert plan.index(Path("/usr")) < plan.index(HOME / "workspace")


def test_shallow_mounts_come_first() -> None:
    depths = [len(mount.target.parts) for mount in mounts.plan_mounts(BOX, (HOME,), (Path("/dev/shm"),))]
    assert all(one <= other for one, other in pairwise(depths))


def test_of_etc_only_a_little_is_shown() -> None:
    etc = [mount for mount in mounts.system_mounts() if mount.target.is_relative_to("/etc")]
    assert not {"shadow", "gshadow", "sudoers", "ssh", "machine-id"} & {mount.target.name for mount in etc}
    assert Path("/etc") not in {mount.target for mount in etc}
    ours = {mount.target.name: mount.source for mount in etc if mount.source and mount.source.parent == mounts.OWN_ETC}
    assert set(ours) == {"passwd", "group", "hosts", "nsswitch.conf", "gitconfig"}


def test_every_folder_on_the_way_can_be_entered_by_the_confined_user() -> None:
    line = " ".join(mounts.mount_options([mounts.Mount("write", HOME / "workspace", HOME / "workspace")], 1))
    assert line == (
        "--perms 0755 --dir /srv --perms 0755 --dir /srv/agent --bind /srv/agent/workspace /srv/agent/workspace"
    )
