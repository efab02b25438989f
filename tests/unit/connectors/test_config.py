"""The operator's file: what it may say, and how every fault of it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.connectors import read_servers
from agent_runtime.connectors.config.config import ConfigFaults, LocalServer, RemoteServer, ServerConfig, parse_servers
from agent_runtime.errors import StartError

DATA = Path("/var/lib/agent")


def one(environment: dict[str, str] | None = None, **about: Any) -> ServerConfig:
    [found] = parse_servers({"mcpServers": {"it": about}}, DATA, environment or {})
    return found


def faults(content: Any, **environment: str) -> list[str]:
    with pytest.raises(ConfigFaults) as raised:
        parse_servers(content, DATA, environment)
    return raised.value.lines


def fault(**about: Any) -> str:
    [line] = faults({"mcpServers": {"it": about}})
    return line.removeprefix("server 'it': ")


def test_a_local_server_as_others_write_it() -> None:
    found = one(command="npx", args=["-y", "server"], env={"KEY": "abc"})
    assert found.target == LocalServer(("npx", "-y", "server"), {"KEY": "abc"})
    assert found.enabled
    assert found.timeout is None


def test_a_local_server_as_the_sheet_has_it() -> None:
    content: dict[str, Any] = {"mcp": {"it": {"type": "local", "command": ["python", "-m", "x"], "enabled": True}}}
    content["mcp"]["it"] |= {"timeout_ms": 500, "start_timeout_ms": 90_000}
    [found] = parse_servers(content, DATA, {})
    assert isinstance(found.target, LocalServer)
    assert found.target.argv == ("python", "-m", "x")
    assert (found.timeout, found.start_timeout) == (0.5, 90)


def test_what_a_local_server_may_do_is_what_it_was_given() -> None:
    bare = one(command="x").target
    assert isinstance(bare, LocalServer)
    assert (bare.network, bare.write, bare.read) == (None, False, ())
    rich = one(command="x", network=["*.example.org"], write=True, read=["/opt/x"], memory_mb=64).target
    assert isinstance(rich, LocalServer)
    assert rich.network is not None
    assert rich.network.match("a.example.org")
    assert not rich.network.match("example.com")
    assert (rich.write, rich.read, rich.memory) == (True, (Path("/opt/x"),), 64 * 2**20)
    every = one(command="x", network=True).target
    assert isinstance(every, LocalServer)
    assert every.network is not None
    assert every.network.match("anything.example")


def test_a_remote_server() -> None:
    oauth = {"token_url": "https://a.example/token", "client_id": "me", "refresh_token": "r" * 10}
    found = one(type="http", url="https://mcp.example/mcp", headers={"X-Key": "k"}, oauth=oauth).target
    assert isinstance(found, RemoteServer)
    assert found.headers == {"x-key": "k"}
    assert found.oauth is not None
    assert found.oauth.client_id == "me"


@pytest.mark.parametrize("url", ["https://a.example/mcp ", "\thttps://a.example/mcp", "${URL}"])
def test_blanks_around_a_url_are_not_a_part_of_it(url: str) -> None:
    oauth = {"token_url": url, "client_id": "me", "refresh_token": "r" * 10, "resource": url}
    found = one({"URL": "https://a.example/mcp\n"}, url=url, oauth=oauth).target
    assert isinstance(found, RemoteServer)
    assert found.oauth is not None
    assert {found.url, found.oauth.token_url, found.oauth.resource} == {"https://a.example/mcp"}


def test_values_come_from_the_environment() -> None:
    found = one({"KEY": "from-outside"}, command="x", args=["${WHERE:-here}"], env={"KEY": "a ${KEY} b"})
    assert found.target == LocalServer(("x", "here"), {"KEY": "a from-outside b"})
    assert "from-outside" in found.secrets


def test_secrets_do_not_show() -> None:
    found = one(
        {"KEY": "from-outside"}, url="https://m.example/?key=${KEY}", headers={"Authorization": "Bearer abcdefgh"}
    )
    assert set(found.secrets) == {"Bearer abcdefgh", "from-outside", "abcdefgh"}
    for secret in found.secrets:
        assert secret not in repr(found)


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({}, "give exactly one of command"),
        ({"command": "x", "url": "https://a.example"}, "give exactly one of command"),
        ({"command": "npx -y x"}, "command: must be the program alone; put its arguments into args"),
        ({"command": []}, "command: must name a program"),
        ({"command": ["x", 1]}, "command[1]: Input should be a valid string"),
        ({"command": "x", "headers": {}}, "headers: not for a server with command"),
        ({"url": "https://a.example", "write": True}, "write: not for a server with url"),
        ({"url": "ftp://a.example"}, "url: must be http:// or https://"),
        ({"url": "https://"}, "url: must be http:// or https://"),
        ({"url": "https://me:secret@a.example/"}, "url: must not carry a user or a password"),
        ({"url": "https://a.example/#x"}, "url: must not have a fragment"),
        (
            {"url": "https://a.example", "type": "sse"},
            "type: must be one of local, stdio, remote, http, streamable-http; HTTP with SSE",
        ),
        ({"url": "https://a.example/my tools"}, "url: must not have blanks; write %20 for one in the path"),
        ({"url": "https://a.example", "type": "stdio"}, "type: stdio needs command"),
        ({"url": "https://a.example", "headers": {"Host": "b"}}, "headers: 'Host' cannot be set here"),
        ({"url": "https://a.example", "headers": {"X": "a\nb"}}, "headers: the value of X must be one line"),
        ({"command": "x", "env": {"A-B": "1"}}, "env: 'A-B' cannot be the name of a variable"),
        ({"command": "x", "env": {"A": "a\0b"}}, "env.A: must not contain null bytes"),
        ({"command": "x", "env": {"A": 1.5}}, "env.A: Input should be a valid string"),
        ({"command": "x", "network": ["a b"]}, "network: "),
        ({"command": "x", "read": ["opt"]}, "read: 'opt' must be an absolute path"),
        ({"command": "x", "read": ["/var/lib/agent/skills"]}, "read: /var/lib/agent/skills is in the data folder"),
        ({"command": "x", "read": ["/var"]}, "read: /var is in the data folder, or contains it"),
        ({"command": "x", "timeout_ms": 1}, "timeout_ms: Input should be greater than or equal to 100"),
        ({"url": "https://a.example", "start_timeout_ms": 99}, "start_timeout_ms: Input should be greater than or eq"),
        ({"command": "x", "start_timeout_ms": 600_001}, "start_timeout_ms: Input should be less than or equal to 600"),
        ({"command": "x", "timeouts": 1}, "timeouts: no such field; there are: type, command, args"),
        ({"command": "x", "enabled": "no"}, "enabled: Input should be a valid boolean"),
        ({"url": "https://a.example", "oauth": {"token_url": "x", "client_id": "a"}}, "oauth"),
    ],
)
def test_every_fault_names_the_field_and_the_fix(about: dict[str, Any], says: str) -> None:
    lines = faults({"mcpServers": {"it": about}})
    assert any(line.startswith(f"server 'it': {says}") for line in lines), lines


def test_all_faults_are_told_at_once() -> None:
    content = {"mcpServers": {"a": {"command": "${NONE}"}, "b": {"url": "x"}, "c d": {"command": "x"}, "e": 1}}
    assert faults(content) == [
        "server 'a': command: the environment has no NONE; set it, or write ${NONE:-default}",
        "server 'b': url: must be http:// or https:// with a host, as in https://mcp.example.org/mcp",
        "server 'c d': name: must be 1 to 40 letters, digits, _ or -; it begins the names of the server's tools",
        "server 'e': must be an object with command or url",
    ]


def test_faults_do_not_repeat_what_is_secret() -> None:
    for about in (
        {"url": "https://me:${KEY}@a.example/"},
        {"url": "https://a.example/", "headers": {"X": "${KEY}\u00e9"}},
        {"command": "x", "env": {"A": "${KEY}\0"}},
    ):
        assert "s3cret" not in "".join(faults({"mcpServers": {"it": about}}, KEY="s3cret-value"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "must be an object with the field mcpServers"),
        ({"server": {}}, "server: no such field; there is mcpServers"),
        ({"mcp": {}, "mcpServers": {}}, "give one of mcp and mcpServers, not both"),
        ({"mcp": []}, "mcp: must be an object"),
        ({"mcp": {str(number): {} for number in range(51)}}, "there are more than 50 servers"),
    ],
)
def test_the_shape_of_the_whole(content: Any, says: str) -> None:
    assert faults(content)[0].startswith(says)


def test_one_that_is_off_needs_nothing() -> None:
    assert not one(command="${NONE}", enabled=False).enabled
    assert parse_servers({}, DATA, {}) == ()


def test_no_file_is_no_server_and_a_bad_one_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    assert read_servers(path, tmp_path, {}) == ()
    with pytest.raises(StartError, match="there is no such file"):
        read_servers(path, tmp_path, {}, required=True)
    path.write_text('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')
    with pytest.raises(StartError, match=r"mcp\.json: a: is there twice"):
        read_servers(path, tmp_path, {})
    path.write_text("{")
    with pytest.raises(StartError, match="is not JSON"):
        read_servers(path, tmp_path, {})
    path.write_text("[" * 100_000)
    with pytest.raises(StartError, match="is not JSON"):
        read_servers(path, tmp_path, {})
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "typo": 1}}}))
    with pytest.raises(StartError, match=r"mcp\.json: server 'a': typo: no such field"):
        read_servers(path, tmp_path, {})


def test_tools_must_not_be_able_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    path = tmp_path / "workspace" / "mcp.json"
    path.write_text("{}")
    with pytest.raises(StartError, match="tools can write there"):
        read_servers(path, tmp_path, {})
    link = tmp_path / "mcp.json"
    link.symlink_to(path)
    with pytest.raises(StartError, match="tools can write there"):
        read_servers(link, tmp_path, {})
