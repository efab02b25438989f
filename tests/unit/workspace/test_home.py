from __future__ import annotations

import ctypes
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from agent_runtime.errors import StartError
from agent_runtime.workspace import Home

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
SOMEBODY = 61000
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def test_prepare_makes_the_folders_and_is_repeatable(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "b")
    home.prepare()
    home.prepare()
    assert home.workspace.is_dir()
    assert home.skills.is_dir()
    assert home.database == tmp_path / "a" / "b" / "agent.db"
    assert home.data_dir.stat().st_mode & 0o077 == 0, "others see nothing of it"


def test_a_link_to_the_data_directory_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert Home(tmp_path / "link").workspace == tmp_path / "real" / "workspace"


def test_a_folder_that_cannot_be_made_stops_the_start_and_says_which(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match=r"AGENT_DATA_DIR: the folder .*file/data cannot be created: Not a directory"):
        Home(tmp_path / "file" / "data").prepare()


@pytest.mark.parametrize("name", ["workspace", "scratch", "staged"])
def test_what_is_given_away_is_no_link(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to("elsewhere")
    with pytest.raises(StartError, match=f"/{name} is a link, and links are not followed"):
        Home(tmp_path).prepare()


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "-x", "a\0b", "x" * 129])
def test_a_session_id_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a folder"):
        Home(tmp_path).scratch(name)


def test_scratch_comes_and_goes_and_links_in_it_are_not_followed(tmp_path: Path) -> None:
    home = Home(tmp_path / "data")
    home.prepare()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    scratch = home.make_scratch("ses_1")
    assert home.make_scratch("ses_1") == scratch == home.scratch("ses_1")
    (scratch / "link").symlink_to(precious)
    home.remove_scratch("ses_1")
    home.remove_scratch("ses_1")
    assert not scratch.exists()
    assert (precious / "file").exists()
    scratch.symlink_to(precious)
    home.remove_scratch("ses_1")
    assert (precious / "file").exists()
    assert not scratch.is_symlink()


@AS_ROOT
def test_root_gives_the_home_to_the_user_of_commands_but_not_what_links_lead_to(tmp_path: Path) -> None:
    home = Home(tmp_path / "data")
    home.prepare()
    outside = tmp_path / "outside"
    outside.touch()
    (home.workspace / "src").mkdir()
    (home.workspace / "src" / "file").touch()
    (home.workspace / "link").symlink_to(outside)
    owned = home.with_owner(SOMEBODY)
    assert [path.lstat().st_uid for path in (home.workspace / "src" / "file", home.workspace / "link")] == [
        SOMEBODY
    ] * 2
    ours = (outside, home.data_dir, home.skills, home.data_dir / "scratch")
    assert [path.stat().st_uid for path in ours] == [0, 0, 0, 0]
    assert owned.make_scratch("ses_1").stat().st_uid == SOMEBODY


@AS_ROOT
def test_what_has_a_second_name_and_what_is_a_device_keep_their_owner(tmp_path: Path) -> None:
    home = Home(tmp_path / "data")
    home.prepare()
    outside = tmp_path / "outside"
    outside.touch()
    kept, scratch = home.workspace / "a" / "second", home.make_scratch("ses_1") / "third"
    kept.parent.mkdir()
    kept.hardlink_to(outside)
    scratch.hardlink_to(outside)
    os.mknod(home.workspace / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    (home.workspace / "z").touch()
    owned = home.with_owner(SOMEBODY)
    assert {path.lstat().st_uid for path in (outside, kept, scratch, home.workspace / "null")} == {0}
    given = (kept.parent, scratch.parent, home.workspace / "z", home.workspace)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in given} == {(SOMEBODY, SOMEBODY)}
    outside.unlink()
    scratch.unlink()
    owned.with_owner(SOMEBODY)
    assert kept.stat().st_uid == SOMEBODY, "the next start gives what has one name by then"


@AS_ROOT
def test_folders_that_turn_into_links_meanwhile_lead_nowhere(tmp_path: Path) -> None:
    home = Home(tmp_path / "data")
    home.prepare()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    for number in range(200):  # each is a folder when it is listed, and may be a link when it is entered
        (home.workspace / str(number)).mkdir()
    link, over = home.data_dir / "link", threading.Event()
    link.symlink_to(outside)
    exchange = ctypes.CDLL(None, use_errno=True).renameat2

    def swap() -> None:
        while not over.is_set():
            for number in range(200):
                names = (os.fsencode(link), os.fsencode(home.workspace / str(number)))
                for _ in range(2):
                    assert exchange(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(20):
            with suppress(StartError):  # it says that a folder was moved
                home.with_owner(SOMEBODY)
    finally:
        over.set()
        swapping.join()
    assert {path.stat().st_uid for path in (outside, *outside.iterdir())} == {0}


def test_a_server_that_is_not_root_keeps_its_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "data")
    assert home.with_owner(None) == home


@AS_ROOT
def test_a_home_that_cannot_be_given_away_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"the workspace cannot be given to user 61000: .*No such file"):
        Home(tmp_path / "never prepared").with_owner(SOMEBODY)


def test_no_depth_of_folders_hinders_the_next_start_or_the_removal(tmp_path: Path) -> None:
    """A command can make a tree that is deeper than Python's walks go."""
    home = Home(tmp_path / "data")
    home.prepare()
    folder = os.open(home.make_scratch("ses_1"), os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    if os.geteuid() == 0:
        home.with_owner(SOMEBODY)
    home.remove_scratch("ses_1")
    assert not home.scratch("ses_1").exists()
