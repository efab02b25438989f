"""What the host's tests stand on: `agent-host up` as a process, and clients of it."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import httpx

from agent_client.sync import SyncMesh
from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.database import open_database
from agent_testing import LiveProcess, ScriptedProvider
from tests.forked import ForkedProcess

UP = [sys.executable, "-m", "agent_host", "up"]
OPERATOR = "operator-token"
PATIENCE = 60.0
"""Seconds after which a wait has failed."""
CATALOG = """
providers:
  upstream: {{base_url: "{url}", api_key_env: UPSTREAM_KEY}}
  plain: {{base_url: "{url}", stream_usage: false}}
  nobody: {{base_url: "http://127.0.0.1:1/v1"}}
models:
  default:
    provider: upstream
    model: big-1
    context_limit: 200000
    max_output_tokens: 8192
    pricing: {{input: 1000000, output: 2000000, cache_read: 100000}}
    capabilities: [chat, tools]
  unpriced: {{provider: upstream, model: big-1}}
  plain: {{provider: plain}}
  embedding: {{provider: upstream, model: vectors-1, capabilities: [embeddings]}}
  unreachable: {{provider: nobody}}
  demo: {{provider: demo}}
"""


class Host:
    """A host over all its lives: the data directory stays, processes come and go."""

    command = UP
    process_class: type[LiveProcess] = ForkedProcess

    def __init__(self, data_dir: Path, **settings: object) -> None:
        self.data_dir = data_dir
        given = {name: str(value) for name, value in settings.items()}
        free = {"MESH_PORT": "0", "MESH_LISTENER_URL": "tcp://127.0.0.1:0"}
        self.env = {"MESH_DATA_DIR": str(data_dir), "MESH_ADMIN_TOKEN": OPERATOR, **free, **given}
        self._life = ExitStack()
        self._mesh: SyncMesh | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._life.close()

    def start(self) -> None:
        """A new life; an older one is over."""
        self._life.close()
        self._mesh = None
        with ExitStack() as life:
            self.process = life.enter_context(self.process_class(self.command, self.env, timeout=PATIENCE))
            self.url = self.process.wait_for_output(r"agent-host listens on (\S+)")[1]
            self.operator = life.enter_context(self.client(OPERATOR))
            self._life = life.pop_all()

    @property
    def mesh(self) -> SyncMesh:
        """The operator's client, for as long as this life lasts."""
        if self._mesh is None:
            self._mesh = self._life.enter_context(SyncMesh(self.url, OPERATOR))
        return self._mesh

    def client(self, token: str | None) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        base = self.url
        transport = httpx.HTTPTransport(verify=False)  # plain HTTP: nothing to verify
        if base.startswith("http+unix://"):
            path = unquote(base.removeprefix("http+unix://"))
            base, transport = "http://host", httpx.HTTPTransport(verify=False, uds=path)
        return httpx.Client(base_url=base, transport=transport, headers=headers, timeout=PATIENCE, trust_env=False)

    def token(self, agent_id: str) -> str:
        """A new token of an agent, as the command makes it, without the second that a process takes to start."""
        url = self.env.get("MESH_DATABASE_URL", f"sqlite:///{self.data_dir / 'mesh.db'}")
        with closing(open_database(url)) as database:
            tokens = TokenStore(database, SystemClock())
            return database.run_sync(lambda connection: tokens.mint_in(connection, agent_id, "manual"))

    def token_command(self, *arguments: str) -> str:
        """What `agent-host token` prints."""
        with LiveProcess([*UP[:-1], "token", *arguments], self.env) as process:
            assert process.wait(PATIENCE) == 0, process.output()
            return process.output().strip()

    def recent(self, **params: Any) -> list[dict[str, Any]]:
        """The ledger's latest calls, newest first."""
        return self.operator.get("/usage", params=params).json()["recent"]


def catalog(folder: Path, provider: ScriptedProvider) -> Path:
    """The catalog of the tests, with the scripted provider behind it."""
    path = folder / "models.yaml"
    path.write_text(CATALOG.format(url=provider.url))
    return path


def said(text: str, **more: Any) -> dict[str, Any]:
    """A request of one user message to the model `default`."""
    return {"model": "default", "messages": [{"role": "user", "content": text}], **more}


def assert_openai_error(reply: httpx.Response, status: int, code: str | None, param: str | None = None) -> str:
    """OpenAI's error shape; returns the message."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    error = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param), error
    return error["message"]


def assert_problem(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The one error shape of all other routes."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert {"type", "title", "status", "detail", "instance", "code"} <= body.keys()
    assert (body["status"], body["code"], body["instance"]) == (status, code, reply.request.url.path)
    return body
