"""Settings: every fault named, no secret shown, a token beyond loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_common.protocol import field_docs
from agent_runtime.cli.main import main, settings_help
from agent_runtime.errors import StartError
from agent_runtime.settings import LOADER, Settings, load_settings


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


EVERYWHERE = "0.0.0.0"  # noqa: S104  nothing listens there


def given(**settings: str) -> None:
    os.environ.update({f"AGENT_{name}": value for name, value in settings.items()})


def test_defaults_work_on_a_laptop() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.token) == ("127.0.0.1", 8400, None)
    assert settings.model_url == "http://127.0.0.1:8420/v1"
    assert settings.skills_path == settings.data_dir / "skills"


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes it for the root, and the data would be there."""
    monkeypatch.setenv("HOME", "")
    with pytest.raises(StartError, match="this user has no home folder: set AGENT_DATA_DIR"):
        load_settings()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes a user whom the system does not know")
def test_a_user_without_a_home_folder_is_told_what_to_set() -> None:
    code = """if True:
        import os
        from pathlib import Path
        from agent_common.errors import StartError
        from agent_common.user_folder import check_user_folder
        from agent_host.settings import load_settings as load_host
        from agent_runtime.connectors.config.installed_files import find_installation
        from agent_runtime.connectors.config.config import LocalServer
        from agent_runtime.settings import load_settings
        os.setuid(2**31 - 7)
        for load in (load_settings, load_host):
            try:
                load()
            except StartError as fault:
                print(fault)
        find_installation(LocalServer(("/usr/share/tool/bin/tool",), {}), Path("/nowhere"), {}, ())
        try:
            check_user_folder(Path("/usr/share"), apart_from=())
        except ValueError as fault:
            print("refused")
        """
    found = subprocess.run(
        [sys.executable, "-c", code], env={}, capture_output=True, text=True, check=False, timeout=60
    )
    told = [f"this user has no home folder: set {name}_DATA_DIR" for name in ("AGENT", "MESH")]
    assert found.stdout.splitlines() == [*told, "refused"], found.stderr


def test_the_environment_is_read(tmp_path: Path) -> None:
    given(ID="a-1", PORT="0", DATA_DIR=str(tmp_path), LLM_BASE_URL="http+unix://%2Ftmp%2Fm.sock/v1/", MODEL="")
    settings = load_settings()
    assert (settings.id, settings.port, settings.model) == ("a-1", 0, "default")
    assert settings.model_url == "http+unix://%2Ftmp%2Fm.sock/v1"
    assert settings.skills_path == tmp_path / "skills"


def test_the_home_folder_has_a_short_name() -> None:
    given(DATA_DIR="~/agent", SKILLS_DIR="~/skills")
    settings = load_settings()
    assert settings.data_dir == Path.home() / "agent"
    assert settings.skills_path == Path.home() / "skills"


def test_folders_of_packages_are_a_path(tmp_path: Path) -> None:
    assert load_settings().skill_paths is None
    given(SKILL_PATHS=f"{tmp_path}:~/skills:")
    assert load_settings().skill_paths == (tmp_path, Path.home() / "skills")
    given(SKILL_PATHS=f"{tmp_path}:skills")
    with pytest.raises(StartError, match="AGENT_SKILL_PATHS: skills must be a whole path"):
        load_settings()


def test_every_fault_is_named() -> None:
    given(PORT="http", ID="-", MESH_URL="ftp://x", MAX_ITERATIONS="0", CONFINEMENT="some")
    with pytest.raises(StartError) as caught:
        load_settings()
    lines = caught.value.message.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        *("AGENT_CONFINEMENT", "AGENT_MAX_ITERATIONS", "AGENT_ID", "AGENT_PORT", "AGENT_MESH_URL"),
    ]
    assert "'ftp://x'" in lines[4]


def test_a_fault_inside_of_a_setting_names_the_place() -> None:
    given(COMPACTION='{"smart_recovery": {"drop_midle": true}}')
    with pytest.raises(StartError, match="AGENT_COMPACTION: smart_recovery: drop_midle: Extra inputs"):
        load_settings()


@pytest.mark.parametrize("url", ["http+unix://%2Frun%2Fmesh.sock", "http+vsock://2:8420", "http://10.0.0.1:8421"])
def test_the_host_is_reached_over_a_socket_or_vsock_too(url: str) -> None:
    given(MESH_URL=url, EGRESS_URL=url)
    settings = load_settings()
    assert (settings.mesh_url, settings.egress_url, settings.model_url) == (url, url, f"{url}/v1")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("unix:/run/mesh.sock", r"must begin with http://, https://, http\+unix:// or http\+vsock://"),
        ("http+unix:///run/mesh.sock", "must spell the slashes of the socket's path as %2F"),
        ("http+vsock://host:8420", r"must name a context id and a port in numbers, as in http\+vsock://2:8420"),
        ("https://proxy", "must be reached in clear"),
    ],
)
def test_a_wrong_way_out_is_refused_with_the_fix(url: str, why: str) -> None:
    given(EGRESS_URL=url)
    with pytest.raises(StartError, match=f"AGENT_EGRESS_URL: {why}"):
        load_settings()


@pytest.mark.parametrize("url", ["http://", "http://[bad", "https:///v1", "http+unix:///v1", "http://host:port"])
def test_an_address_without_a_host_is_no_address(url: str) -> None:
    given(LLM_BASE_URL=url)
    with pytest.raises(StartError, match="AGENT_LLM_BASE_URL"):
        load_settings()


def test_a_token_is_required_beyond_loopback() -> None:
    given(HOST=EVERYWHERE)
    with pytest.raises(StartError, match=r"AGENT_TOKEN: must be set to listen on 0\.0\.0\.0"):
        load_settings()
    given(TOKEN="t")
    assert load_settings().host == EVERYWHERE
    given(HOST="localhost")
    del os.environ["AGENT_TOKEN"]
    assert load_settings().token is None


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  s3cret\n")
    given(TOKEN_FILE=str(tmp_path / "token"), HOST=EVERYWHERE)
    token = load_settings().token
    assert token is not None
    assert token.get_secret_value() == "s3cret"
    given(TOKEN="from the environment")
    token = load_settings().token
    assert token is not None
    assert token.get_secret_value() == "from the environment"


def test_a_file_is_a_form_of_secrets_only(tmp_path: Path) -> None:
    given(ID_FILE=str(tmp_path / "nothing"))
    with pytest.raises(StartError, match="AGENT_ID_FILE: there is no such setting"):
        load_settings()
    assert [name for name in Settings.model_fields if LOADER.is_secret(name)] == ["token", "mesh_token", "skill_index"]


def test_a_secret_file_that_cannot_be_read_is_named_beside_the_other_faults(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").write_bytes(b"\n")
    for file, words in (("missing", "No such file"), ("binary", "text"), ("empty", "it is empty")):
        given(MESH_TOKEN_FILE=str(tmp_path / file), PORT="http")
        with pytest.raises(StartError) as caught:
            load_settings()
        assert "AGENT_MESH_TOKEN" in caught.value.message
        assert words in caught.value.message
        assert "AGENT_PORT" in caught.value.message


def test_no_secret_is_shown() -> None:
    given(TOKEN="s3cret", PORT="http")
    with pytest.raises(StartError) as caught:
        load_settings()
    assert "s3cret" not in caught.value.message
    del os.environ["AGENT_PORT"]
    assert "s3cret" not in repr(load_settings())


@pytest.mark.parametrize(
    "index",
    ["ftp://u:s3cret@a.example", "u:s3cret@a.example", "https://u:s3cret@a:x", "https://u:s3cret@[a", "http://"],
)
def test_an_index_that_is_no_url_is_refused_without_its_password(index: str) -> None:
    given(SKILL_INDEX=index)
    with pytest.raises(StartError, match=r"AGENT_SKILL_INDEX: must be a URL like https://\S+") as caught:
        load_settings()
    assert "s3cret" not in caught.value.message


def test_the_command_says_why_it_cannot_start(capsys: pytest.CaptureFixture[str]) -> None:
    given(PORT="http")
    assert main(["serve"]) == 1
    assert "agent-runtime: AGENT_PORT" in capsys.readouterr().err


def test_every_setting_is_a_line_of_the_help() -> None:
    text = settings_help()
    docs = field_docs(Settings)
    for name in Settings.model_fields:
        assert f"AGENT_{name.upper()}" in text
        assert " ".join(docs[name].split())[:60] in " ".join(text.split())
    assert "AGENT_TOKEN_FILE" in text
