"""Contexts: which server a command talks to, with which token, and the file that holds them."""

from __future__ import annotations

import asyncio
import fcntl
import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_client.cli.contexts import (
    Choice,
    Context,
    Contexts,
    Target,
    change_contexts,
    contexts_path,
    kind_of,
    load_contexts,
    resolve,
)
from agent_client.cli.errors import USAGE, CliError, UsageError
from agent_client.cli.run import Invocation

HOST = Context("host", "http://localhost:8420", "host", token="secret", workspace="ada", user="ann")
LONE = Context("lone", "http://localhost:8400", "agent")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def keep(*contexts: Context, current: str | None = None) -> None:
    change_contexts(lambda _: Contexts(contexts, current))


def token_file(folder: Path, text: str = "from-file\n", mode: int = 0o600) -> str:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_options_come_before_the_environment_and_that_before_the_current_context(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(HOST, LONE, current="host")
    of_host = Target(HOST.url, "secret", "host", "ada", "ann")
    assert resolve(Choice()) == of_host
    monkeypatch.setenv("AGENT_CONTEXT", "lone")
    assert resolve(Choice()) == Target(LONE.url, None, "agent")
    monkeypatch.setenv("AGENT_URL", "http://other:1")
    assert resolve(Choice()) == Target("http://other:1")
    assert resolve(Choice(context="host")) == of_host
    assert resolve(Choice(url="http://third:1", workspace="bea")) == Target("http://third:1", None, None, "bea")
    given = Choice(context="host", workspace="bea", user="bob", token_file=token_file(home))
    assert resolve(given) == Target(HOST.url, "from-file", "host", "bea", "bob")


def test_a_folder_of_an_agent_chooses_its_workspace(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = home / "shop" / "src"
    below.mkdir(parents=True)
    keep(replace(HOST, folders={str(home / "shop"): "shop"}), current="host")
    assert resolve(Choice()).workspace == "ada"
    for folder in (below, below.parent):
        monkeypatch.chdir(folder)
        assert resolve(Choice()).workspace == "shop"
        assert resolve(Choice(workspace="bea")).workspace == "bea"
    monkeypatch.chdir(below)
    below.rmdir()
    assert resolve(Choice()).workspace == "ada", "the folder is gone"


def test_an_agent_that_works_in_another_folder_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop, ada = home / "shop", home / "ada"
    keep(replace(HOST, folders={str(shop): "shop", str(ada): "ada"}), current="host")
    (shop / "data").mkdir(parents=True)
    for folder, choice, told in (
        (home, Choice(), f"the agent is ada, which works in {ada}; `agent up` starts one in this folder\n"),
        (home, Choice(workspace="ada"), ""),
        (shop / "data", Choice(), ""),
    ):
        monkeypatch.chdir(folder)
        Invocation(choice=choice).agent()
        assert capsys.readouterr().err == told


def test_a_token_of_the_environment_goes_to_the_url_beside_it_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(LONE, current="lone")
    monkeypatch.setenv("AGENT_TOKEN", "of-env")
    assert resolve(Choice()).token is None
    assert resolve(Choice(url="http://other:1")).token == "of-env"
    monkeypatch.setenv("AGENT_TOKEN_FILE", token_file(home))
    assert resolve(Choice()).token is None
    assert resolve(Choice(url="http://other:1")).token == "from-file"
    monkeypatch.setenv("AGENT_URL", "http://mine:1")
    assert resolve(Choice()).token == resolve(Choice(url="http://mine:1")).token == "from-file"
    assert resolve(Choice(url="http://other:1")).token is None


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (Choice(), "agent up"),
        (Choice(context="nowhere"), "agent context add"),
        (Choice(context="lone", url="http://x"), "--context and --url"),
        (Choice(url="localhost:8400"), "http://HOST"),
        (Choice(url="http://ann:secret@host"), "token-file"),
        (Choice(url="http://localhost:99999"), "http://HOST"),
        (Choice(url="http://localhost:abc"), "http://HOST"),
        (Choice(url="http://[::1"), "http://HOST"),
    ],
)
def test_a_wrong_choice_is_a_usage_error_that_says_the_fix(choice: Choice, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(choice)
    assert told in str(caught.value)
    assert caught.value.code == USAGE


def test_no_token_shows_in_a_representation() -> None:
    assert "secret" not in repr(HOST) + repr(Contexts((HOST,))) + repr(Target("http://x", "secret"))


@pytest.mark.parametrize("text", ["", "two\nlines", "größer"])
def test_a_file_that_holds_no_token_is_named(home: Path, text: str) -> None:
    with pytest.raises(CliError, match="must hold one line"):
        resolve(Choice(url="http://x", token_file=token_file(home, text)))


def test_a_token_file_that_is_missing_is_named(home: Path) -> None:
    with pytest.raises(CliError, match="nowhere cannot be read: No such file"):
        resolve(Choice(url="http://x", token_file=str(home / "nowhere")))


def test_a_token_file_that_others_can_read_is_used_with_a_warning(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolve(Choice(url="http://x", token_file=token_file(home, mode=0o644))).token == "from-file"
    assert "chmod 600" in capsys.readouterr().err


# ---------------------------------------------------------------- the file


def test_the_file_is_its_owners_alone(home: Path) -> None:
    (home / "agent").mkdir(mode=0o755)
    keep(HOST)
    assert stat.S_IMODE(contexts_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(contexts_path().parent.stat().st_mode) == 0o700
    assert load_contexts() == Contexts((HOST,))


def test_a_file_that_others_can_read_is_refused() -> None:
    keep(HOST)
    contexts_path().chmod(0o640)
    with pytest.raises(CliError, match="chmod 600"):
        load_contexts()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "Invalid JSON"),
        ('{"contexts": [{"name": "a", "url": "http://x"}]}', "contexts.0.kind"),
        ('{"contexts": [{"name": "a", "url": "http://x", "kind": "moon"}]}', "contexts.0.kind"),
        ("[]", "contexts.json"),
    ],
)
def test_a_broken_file_is_named_with_its_fault_and_left_alone(text: str, told: str) -> None:
    keep(HOST)
    contexts_path().write_text(text)
    for use in (load_contexts, lambda: change_contexts(lambda known: known)):
        with pytest.raises(CliError, match=told):
            use()
    assert contexts_path().read_text() == text


def test_what_a_dead_process_left_is_no_obstacle(home: Path) -> None:
    keep(HOST)
    left = contexts_path().with_name("contexts.json.new")
    left.write_text("half of it")
    left.chmod(0o644)
    keep(HOST, LONE)
    assert load_contexts() == Contexts((HOST, LONE))
    assert stat.S_IMODE(contexts_path().stat().st_mode) == 0o600


def test_contexts_are_added_used_and_removed() -> None:
    known = Contexts().with_context(HOST).with_context(LONE)
    assert known.current == "host"
    assert known.using("lone").current == "lone"
    assert known.with_context(LONE, use=True).current == "lone"
    assert known.without("host") == Contexts((LONE,), None)
    assert known.with_context(Context("host", "http://new", "agent")).get("host").url == "http://new"
    for wrong in (known.using, known.without, known.get):
        with pytest.raises(UsageError, match="there is: host, lone"):
            wrong("nowhere")
    with pytest.raises(UsageError, match="letters"):
        known.with_context(Context("../x", "http://x", "host"))


OPTIONAL = st.none() | st.text(st.characters(codec="utf-8"), max_size=5)
CONTEXTS = st.builds(
    Context,
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True),
    st.just("http://x"),
    st.sampled_from(["host", "agent"]),
    *(OPTIONAL,) * 4,
)


@given(st.lists(CONTEXTS, max_size=4, unique_by=lambda one: one.name))
def test_what_is_written_is_read_again(contexts: list[Context]) -> None:
    known = Contexts(tuple(contexts), contexts[0].name if contexts else None)
    change_contexts(lambda _: known)
    assert load_contexts() == known
    assert json.loads(contexts_path().read_text())["current"] == known.current


def test_a_workspace_that_is_deleted_is_meant_nowhere(home: Path) -> None:
    """Where another one's folder is around its own, that is meant."""
    folders = {"/srv/shop": "work", "/srv/shop/sub": "sub"}
    local = Context("local", "http://localhost:8420", "host", workspace="sub", folders=folders)
    other = replace(local, name="other", url="http://localhost:1")
    known = Contexts((local, other), "local").forgetting(local.url, "sub")
    assert known == Contexts((replace(local, workspace=None, folders={"/srv/shop": "work"}), other), "local")
    assert known.get("local").workspace_in(Path("/srv/shop/sub")) == "work"
    assert known.get("local").workspace_in(Path("/elsewhere")) is None


async def test_the_operators_token_goes_to_the_host_that_has_locked_its_folder_alone(tmp_path: Path) -> None:
    """Another user's program may have taken the port since."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        keep(Context("local", url, "host", token="secret", data_dir=str(tmp_path)), current="local")
        with pytest.raises(CliError, match="is not the host of"):
            await kind_of(resolve(Choice()))
        with (tmp_path / "host.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (tmp_path / "host.lock").write_text(json.dumps({"pid": 1, "url": f"{url}0"}))
            with pytest.raises(CliError, match="is not the host of"):
                await kind_of(resolve(Choice()))
            (tmp_path / "host.lock").write_text(json.dumps({"pid": 1, "url": url}))
            assert await kind_of(resolve(Choice())) == "host"


def test_a_closed_stdin_is_an_empty_one() -> None:
    command = ["sh", "-c", f"exec {sys.executable} -m agent_client -p - <&-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "the prompt is empty" in done.stderr
