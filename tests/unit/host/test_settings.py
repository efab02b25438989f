"""Settings of the host: what is read, what is refused, and that help and docs name them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_common.protocol import field_docs
from agent_host.errors import StartError
from agent_host.settings import LOADER, HostSettings, load_settings

Env = Callable[..., None]


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Env:
    monkeypatch.setenv("HOME", str(tmp_path))

    def put(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return put


def faults(**overrides: object) -> list[str]:
    with pytest.raises(StartError) as caught:
        load_settings(**overrides)
    return caught.value.message.splitlines()


def test_defaults_work_on_a_laptop(env: Env, tmp_path: Path) -> None:
    settings = load_settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8420)
    assert settings.data_dir == tmp_path / ".local/share/agent-mesh"
    assert settings.database == f"sqlite:///{tmp_path}/.local/share/agent-mesh/mesh.db"
    assert settings.builtin_provider == "demo"


def test_the_environment_is_read(env: Env, tmp_path: Path) -> None:
    env(MESH_PORT=1234, MESH_DATA_DIR="~/mesh", MESH_DATABASE_URL="sqlite:///x.db", OPENAI_BASE_URL="http://x/v1/")
    settings = load_settings()
    assert settings.port == 1234
    assert settings.data_dir == tmp_path / "mesh"
    assert settings.database == "sqlite:///x.db"
    assert settings.openai_base_url == "http://x/v1"


def test_an_empty_variable_is_an_unset_one(env: Env) -> None:
    env(MESH_PORT="", OPENAI_API_KEY="")
    assert load_settings().port == 8420
    assert load_settings().builtin_provider == "demo"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"OPENAI_API_KEY": "k"}, "openai"),
        ({"OPENAI_BASE_URL": "http://localhost:1/v1"}, "openai"),
        ({"OPENAI_MODEL": "m"}, "demo"),
        ({"OPENAI_API_KEY": "k", "MESH_PROVIDER": "demo"}, "demo"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai"),
        ({"ANTHROPIC_MODEL": "claude-x"}, "demo"),
        ({"MESH_PROVIDER": "local"}, "local"),
    ],
)
def test_the_provider_follows_from_what_is_set(env: Env, values: dict[str, str], kind: str) -> None:
    env(**values)
    assert load_settings().builtin_provider == kind


def test_every_fault_is_named_at_once(env: Env, tmp_path: Path) -> None:
    env(MESH_PORT="99999", MESH_PROVIDER="magic", MESH_MODELS=tmp_path / "none.yaml", OPENAI_BASE_URL="ftp://x")
    env(MESH_PROT="1", MESH_ADMIN_TOKEN_FILE=tmp_path / "none", MESH_LOG_LEVEL="loud")
    found = faults()
    names = ("MESH_PROT:", "MESH_ADMIN_TOKEN_FILE:", "MESH_PORT:", "MESH_MODELS:", "MESH_PROVIDER:")
    for name in (*names, "OPENAI_BASE_URL:", "MESH_LOG_LEVEL:"):
        assert sum(fault.startswith(name) for fault in found) == 1, found
    assert len(found) == 7
    assert "did you mean MESH_PORT?" in found[0] or "did you mean MESH_PORT?" in found[1]
    assert any("is '99999'" in fault for fault in found)


def test_an_unknown_setting_that_resembles_none_points_to_the_help(env: Env) -> None:
    env(MESH_XYZZY_QUUX="1")
    assert faults() == ["MESH_XYZZY_QUUX: there is no such setting; see agent-host up --help"]


def test_secrets_come_from_files_and_are_not_shown(env: Env, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-secret\n")
    env(OPENAI_API_KEY_FILE=tmp_path / "key")
    settings = load_settings()
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == "sk-secret"
    assert settings.builtin_provider == "openai"
    assert "sk-secret" not in repr(settings)


def test_a_secret_given_twice_an_empty_file_and_a_binary_one_are_refused(env: Env, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    env(MESH_ADMIN_TOKEN="a", MESH_ADMIN_TOKEN_FILE=tmp_path / "empty")
    env(OPENAI_API_KEY_FILE=tmp_path / "empty", MESH_DATABASE_URL_FILE=tmp_path / "binary")
    found = "\n".join(faults())
    assert "MESH_ADMIN_TOKEN_FILE: MESH_ADMIN_TOKEN is set too; keep one of them" in found
    assert f"OPENAI_API_KEY_FILE: cannot read {tmp_path}/empty: it is empty" in found
    assert f"MESH_DATABASE_URL_FILE: cannot read {tmp_path}/binary: it is not text" in found


def test_the_names_are_the_environments() -> None:
    assert LOADER.env_name("data_dir") == "MESH_DATA_DIR"
    assert LOADER.env_name("openai_api_key") == "OPENAI_API_KEY"
    assert {"MESH_ADMIN_TOKEN_FILE", "OPENAI_API_KEY_FILE", "MESH_DATABASE_URL_FILE"} <= set(LOADER.names())
    assert "MESH_PORT_FILE" not in LOADER.names()
    assert field_docs(HostSettings).keys() == HostSettings.model_fields.keys()
