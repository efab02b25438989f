"""bots.yaml and the environment: what they say, and every fault with the path of its field."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_common.errors import StartError
from frontends.settings import BotsEnvironment, BotSettings, load_settings, loading

BOTS = """
mesh: {url: "http://mesh:8420", token_file: mesh-token}
bots:
  - {name: home, platform: telegram, token_file: telegram-token, workspaces: [a, b], people: [telegram:1]}
  - {name: work, platform: discord, token: discord-secret, base_url: "http://127.0.0.1:9/api", workspaces: [c],
     approvers: [telegram:1, discord:2]}
notices: ["ntfy://topic"]
notices_file: notices
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with secrets in files."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in ("mesh-token", "telegram-token"):
        (tmp_path / name).write_text(f"{name}-secret\n")
    (tmp_path / "notices").write_text("json://one/\n\njson://two/\n")
    return tmp_path


def write(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = folder / "bots.yaml"
    path.write_text(text)
    monkeypatch.setenv("AGENT_BOTS", str(path))
    return path


def faults() -> list[str]:
    with pytest.raises(StartError) as caught:
        load_settings()
    return str(caught.value).splitlines()


def test_a_file_with_all_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, BOTS, monkeypatch)
    settings = load_settings()
    assert (settings.mesh_url, settings.mesh_token.get_secret_value()) == ("http://mesh:8420", "mesh-token-secret")
    home, work = settings.bots
    assert home.token.get_secret_value() == "telegram-token-secret"
    assert (home.workspaces, home.people, home.approvers) == (("a", "b"), {"telegram:1"}, frozenset())
    assert (work.name, work.platform, work.base_url) == ("work", "discord", "http://127.0.0.1:9/api")
    assert work.approvers == {"telegram:1", "discord:2"}
    assert [one.get_secret_value() for one in settings.notices] == ["ntfy://topic", "json://one/", "json://two/"]
    assert settings.data_dir == folder / ".local/share/agent-bots"
    assert "secret" not in repr(settings).replace("SecretStr", "")


@pytest.mark.parametrize("xdg", [False, True])
def test_the_file_beside_the_contexts_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch, xdg: bool) -> None:
    where = folder / ("xdg" if xdg else ".config") / "agent"
    if xdg:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(where.parent))
    assert faults() == [
        "no bot is configured; set TELEGRAM_BOT_TOKEN or DISCORD_BOT_TOKEN, "
        f"or name the bots in {where}/bots.yaml (docs/how-to/bots.md)"
    ]
    where.mkdir(parents=True)
    (where / "bots.yaml").write_text(
        "mesh: {token: m}\nbots: [{name: x, platform: telegram, token: t, workspaces: [a]}]"
    )
    assert [bot.name for bot in load_settings().bots] == ["x"]


def test_the_environment_is_enough_for_one_bot_of_each_platform(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN_FILE", str(folder / "telegram-token"))
    monkeypatch.setenv("TELEGRAM_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "d")
    monkeypatch.setenv("MESH_TOKEN_FILE", str(folder / "mesh-token"))
    monkeypatch.setenv("BOTS_WORKSPACE", " a, b")
    monkeypatch.setenv("BOTS_DATA_DIR", "~/bots")
    settings = load_settings()
    assert settings.mesh_url == "http://127.0.0.1:8420"
    assert settings.data_dir == folder / "bots"
    telegram, discord = settings.bots
    token = telegram.token
    assert token.get_secret_value() == "telegram-token-secret"
    assert telegram == BotSettings("telegram", "telegram", token, "http://127.0.0.1:9", ("a", "b"))
    assert (discord.name, discord.base_url, discord.workspaces) == ("discord", None, ("a", "b"))


def test_the_environment_comes_before_the_file_beside_the_contexts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".config/agent").mkdir(parents=True)
    (folder / ".config/agent/bots.yaml").write_text("nothing")
    for name in ("TELEGRAM_BOT_TOKEN", "MESH_TOKEN", "BOTS_WORKSPACE"):
        monkeypatch.setenv(name, "x")
    assert [bot.name for bot in load_settings().bots] == ["telegram"]


def test_all_faults_of_the_environment_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"TELEGRAM_BOT_TOKEN": "a b", "MESH_URL": "ftp://x", "BOTS_WORKSPACES": "a", "BOTS_WORKSPACE": "a/b"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert faults() == [
        "BOTS_WORKSPACES: there is no such setting; did you mean BOTS_WORKSPACE?",
        "BOTS_WORKSPACE: 0: must be the id of a workspace (is 'a/b')",
        "TELEGRAM_BOT_TOKEN: must be printable ASCII characters without white space inside",
        "MESH_URL: must be http://HOST:PORT or https://HOST (is 'ftp://x')",
    ]


def test_what_is_missing_is_said_with_the_command_that_makes_it(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "t")
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "d")
    assert faults() == [
        "BOTS_WORKSPACE: is missing; name the workspaces, for example a,b",
        "MESH_TOKEN: the bots need a token of the host; make one with `agent-host token --user 'telegram:*' "
        "--user 'discord:*' --workspaces a`, and name its file in MESH_TOKEN_FILE",
    ]


BOT = "{name: x, platform: telegram, token: t, workspaces: [a]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bots: []", ["bots: List should have at least 1 item after validation, not 0"]),
        ("", ["Input should be a valid dictionary or instance of BotsFile"]),
        ("bots: [", ["is not YAML: see line 1, column 8"]),
        (f"bot: []\nbots: [{BOT}]", ["bot: there is no such key; there is: mesh, bots, notices, notices_file"]),
        (f"mesh: {{uri: x}}\nbots: [{BOT}]", ["mesh.uri: there is no such key; there is: url, token, token_file"]),
        (
            "bots: [{name: a/b, platform: irc, tokn: t, workspaces: []}]",
            [
                "bots.0.name: must be letters, digits, `.`, `_` and `-`, at most 64",
                "bots.0.platform: Input should be 'telegram' or 'discord'",
                "bots.0.workspaces: List should have at least 1 item after validation, not 0",
                "bots.0.tokn: there is no such key; there is: name, platform, token, token_file, base_url, workspaces, "
                "approvers, people",
            ],
        ),
        (
            f"bots: [{BOT}, {{name: x, platform: discord, token: t, workspaces: [a], people: ['telegram:1']}}]",
            [
                "bots.1.name: is that of bots.0 too",
                "bots.1.token: is that of bots.0 too",
                "bots.1.people: telegram:1 is not of discord",
            ],
        ),
        (
            "bots: [{name: x, platform: telegram, workspaces: [a], approvers: [ann]}]",
            ["bots.0.approvers.0: must be telegram:NUMBER or discord:NUMBER"],
        ),
        (
            "bots: [{name: x, platform: telegram, workspaces: [a]}]",
            ["bots.0.token: is missing; give it, or token_file"],
        ),
        (
            "bots: [{name: x, platform: telegram, token: t, token_file: f, workspaces: [a]}]",
            ["bots.0.token_file: token is there too; keep one of them"],
        ),
        (f"bots: [{BOT}]\nnotices_file: none", ["notices_file: cannot read FOLDER/none: No such file or directory"]),
        (
            f"bots: [{BOT}]\nmesh: {{token_file: none}}",
            ["mesh.token_file: cannot read FOLDER/none: No such file or directory"],
        ),
    ],
)
def test_the_faults_of_a_file_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: list[str]
) -> None:
    monkeypatch.setenv("MESH_TOKEN", "m")
    path = write(folder, text, monkeypatch)
    assert faults() == [f"{path}: {line}".replace("FOLDER", str(folder)) for line in expected]


def test_no_fault_shows_a_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "bots: [{name: x, platform: telegram, token: 'my password', workspaces: [a]}", monkeypatch)
    assert "password" not in "\n".join(faults())
    write(folder, "bots: [{name: x, platform: telegram, token: 'my password', workspaces: [a]}]", monkeypatch)
    assert "password" not in "\n".join(faults())


def test_the_environments_token_goes_to_no_host_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, f"mesh: {{url: 'http://other:8420'}}\nbots: [{BOT}]", monkeypatch)
    monkeypatch.setenv("MESH_TOKEN", "m")
    assert load_settings().mesh_token.get_secret_value() == "m", "no other URL is beside it"
    monkeypatch.setenv("MESH_URL", "http://mine:8420")
    assert faults()[0].startswith("MESH_TOKEN: the bots need a token of the host")


def test_each_variable_is_read() -> None:
    source = Path(loading.__file__).read_text("utf-8")
    assert [name for name in BotsEnvironment.model_fields if f"environment.{name}" not in source] == []
