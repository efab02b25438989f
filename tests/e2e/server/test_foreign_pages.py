"""A guest and a host with tokens: what web pages of elsewhere can have a browser send to them.

Nothing that counts: a browser adds no token by itself, neither accepts cookies, and no answer lets a page of another
origin send a header or read. So `Origin` decides nothing there: whoever has the token may say any, as a proxy does that
passes on what its page has sent. test_status.py has the requests that a browser calls cross-site.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agent_testing import Say, ScriptedProvider
from tests.e2e.live import TOKEN, Runtime
from tests.integration.host.live import OPERATOR, Host

PAGE = {"origin": "http://evil.example", "content-type": "text/plain"}
REBOUND = {"host": "evil.example:8400", **PAGE}
"""Of a page whose own name leads here now, which its browser takes for the page's own server."""
WORK = ("/chat", b'{"message": "hello"}')
WORKSPACE = ("/workspaces", b'{"id": "theirs"}')


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder: Path = tmp_path_factory.mktemp("guest")
    with ScriptedProvider([Say("hello")]) as provider, Runtime(provider, folder) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("host")) as host:
        yield host


def ask_as_pages_do(stranger: httpx.Client, token: str, path: str, body: bytes) -> None:
    """Everything that a page can have its browser send, with the token where a page cannot put it."""
    wants = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    for page in (PAGE, REBOUND):
        asked = stranger.options(path, headers={**page, **wants})
        assert asked.status_code in (401, 405)
        answers = [asked, stranger.get("/healthz", headers=page)]
        cookie = {"cookie": f"token={token}; authorization=Bearer {token}"}
        for headers, query in ((page, ""), ({**page, **cookie}, f"?token={token}")):
            reply = stranger.post(path + query, content=body, headers=headers)
            assert reply.status_code == 401
            answers.append(reply)
        for reply in answers:
            assert not [name for name in reply.headers if name.startswith(("access-control-", "set-cookie"))]


def test_a_page_of_elsewhere_does_nothing_at_a_guest(guest: Runtime) -> None:
    with guest.client(accept="*/*") as stranger:
        ask_as_pages_do(stranger, TOKEN, *WORK)
    assert guest.provider.completions == []


def test_a_page_of_elsewhere_does_nothing_at_a_host(host: Host) -> None:
    with host.client(None) as stranger:
        ask_as_pages_do(stranger, OPERATOR, *WORKSPACE)
    assert list(host.mesh.workspaces.list()) == []


def test_the_token_decides_and_not_what_origin_says(guest: Runtime, host: Host) -> None:
    for caller, path in ((guest.http, "/status"), (host.operator, "/workspaces")):
        for page in (PAGE, REBOUND):
            reply = caller.get(path, headers=page)
            assert reply.status_code == 200
            assert not [name for name in reply.headers if name.startswith("access-control-")]
