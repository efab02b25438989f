"""A guest with 512 MiB and a host with 1 GiB bear the costly inputs of this folder, one after another and
side by side: no process is ended for want of memory, and work is done afterwards. `pytest -rP` shows the peaks."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from agent_testing import Call, Garbage, LiveProcess, Say, ScriptedProvider
from tests.e2e.live import Runtime, fresh, in_background
from tests.integration.host.live import PATIENCE, Host, catalog, said
from tests.memory_group import MemoryGroup, memory_group
from tests.memory_limit import GUEST_MIB, HOST_MIB, peak_mib

from .test_calls import BEYOND, SHAPES
from .test_guest_input import COSTLY_BODIES, COSTLY_EVENTS, MIB
from .test_guest_patterns import ARGUMENTS, PACKAGE, PLUGINS, WRITTEN
from .test_host_input import COSTLY, chat_body
from .test_quoted_texts import BODIES, body_of

CHAT = "/v1/chat/completions"
AT_ONCE = 6


class Watch:
    """The memory of a server: its own, and that of its group."""

    def __init__(self, name: str, process: LiveProcess, group: MemoryGroup | None, limit: int) -> None:
        self._name, self._process, self._group, self._limit = name, process, group, limit

    @contextmanager
    def during(self, what: str) -> Generator[None]:
        """Assert that the server lives through the block, and print what it held at most."""
        yield
        own = peak_mib(self._process.pid)  # fails if it has ended
        whole, kills = (self._group.peak_mib, self._group.kills) if self._group else (0, 0)
        print(f"{self._name}: {what}: {own} MiB resident, {whole or 'no'} MiB in its group, {kills} killed")
        assert own < self._limit
        assert kills == 0, f"{what}: the kernel has ended a process"


def side_by_side(count: int, send: Callable[[], httpx.Response]) -> list[int]:
    sent = [in_background(send) for _ in range(count)]
    for thread, _ in sent:
        thread.join(PATIENCE)
    return [answers[0].status_code for _, answers in sent]


def test_every_server_of_this_folder_is_limited(tmp_path: Path) -> None:
    with (
        ScriptedProvider() as provider,
        Runtime(provider, tmp_path / "guest") as guest,
        Host(tmp_path / "host") as host,
    ):
        for pid, mib in ((guest.process.pid, GUEST_MIB), (host.process.pid, HOST_MIB)):
            assert resource.prlimit(pid, resource.RLIMIT_DATA) == (mib * MIB, mib * MIB)


@pytest.mark.timeout(900)
def test_a_guest_of_512_mib_survives_every_costly_input(tmp_path: Path) -> None:
    with memory_group(GUEST_MIB) as group, ScriptedProvider() as provider, ExitStack() as stack:
        guest = Runtime(provider, tmp_path / "guest")
        guest.command = group.command(guest.command) if group else guest.command
        (package := guest.data_dir / "workspace" / ".agents" / "skills" / "slow").mkdir(parents=True)
        (package / "SKILL.md").write_text(PACKAGE)
        stack.enter_context(guest)
        watch = Watch("guest", guest.process, group, GUEST_MIB)

        def post(body: bytes) -> httpx.Response:
            return guest.http.post(
                "/chat", content=body, headers={"content-type": "application/json"}, timeout=PATIENCE
            )

        for name, body in COSTLY_BODIES.items():
            with watch.during(f"bodies of {name}"):
                large = body * 7 if name == "parts" else body
                assert set(side_by_side(AT_ONCE, lambda large=large: post(large))) <= {422, 429, 503}
        for name, events in COSTLY_EVENTS.items():
            provider.script.replace(None, Garbage(events))
            with watch.during(f"an answer with {name}"):
                assert guest.chat("go", session_id=fresh("s")).status_code == 502
        for name, code in PLUGINS.items():
            provider.script.replace([Call("create_skill", {"name": "slow", "code": code}), Say("over")])
            with watch.during(f"a plugin with {name}"):
                assert guest.chat("go", session_id=fresh("s")).status_code == 200
        for name, text in WRITTEN.items():
            provider.script.replace(lambda _, text=text: Say(text))
            with watch.during(f"answers with {name}"):
                side_by_side(AT_ONCE, lambda: guest.chat("go", session_id=fresh("s")))
        for name, arguments in ARGUMENTS.items():
            provider.script.replace([Call("read", arguments), Say("over")])
            with watch.during(f"arguments with {name}"):
                assert guest.chat("go", session_id=fresh("s")).status_code == 200
        provider.script.replace([Call("skill", {"name": "slow"}), Say("over")])
        with watch.during("a package that is hard to quote"):
            assert guest.chat("go", session_id=fresh("s")).status_code == 200
        upload = b"x" * (8 * MIB - 1)
        with watch.during("large uploads"):
            for number in range(2 * AT_ONCE):
                assert guest.http.put(f"/workspace/large-{number}", content=upload).status_code == 201
            names = iter(range(AT_ONCE))
            answers = side_by_side(AT_ONCE, lambda: guest.http.put(f"/workspace/more-{next(names)}", content=upload))
            assert set(answers) <= {201, 429, 503}
        reads = tuple(Call("read", {"path": f"large-{number}"}) for number in range(2 * AT_ONCE))
        searches = tuple(Call("grep", {"pattern": "(x+x+)+y", "path": f"large-{number}"}) for number in range(3))
        provider.script.replace([Say(calls=(*reads, *searches)), Say("done")])
        with watch.during("reads and searches of large files"):
            assert guest.chat("read them", session_id=fresh("s")).status_code == 200
        provider.script.replace(lambda _: Say("y" * (4 * MIB)))
        with watch.during("long answers of a model"):
            for _ in range(3):
                side_by_side(4, lambda: guest.chat("go " + "z" * (4 * MIB), session_id=fresh("s")))
        with watch.during("the end"):
            guest.still_works()


@pytest.mark.timeout(900)
def test_a_host_of_1_gib_survives_every_costly_input(tmp_path: Path) -> None:
    with (
        memory_group(HOST_MIB) as group,
        ScriptedProvider(models=("big-1",)) as provider,
        ExitStack() as stack,
    ):
        host = Host(tmp_path / "data", MESH_MODELS=catalog(tmp_path, provider), UPSTREAM_KEY="sk")
        host.command = group.command(host.command) if group else host.command
        stack.enter_context(host)
        watch = Watch("host", host.process, group, HOST_MIB)
        token = host.token("evil")

        def post(path: str, body: bytes) -> httpx.Response:
            with host.client(token) as agent:
                headers = {"content-type": "application/json"}
                return agent.post(path, content=body, headers=headers, timeout=PATIENCE)

        for name, messages in COSTLY.items():
            body = chat_body(messages)
            with watch.during(f"calls of {name}"):
                assert set(side_by_side(AT_ONCE, lambda body=body: post(CHAT, body))) <= {400, 429, 503}
        for name in BODIES:
            body = body_of(name)
            with watch.during(f"a long {name}"):
                assert set(side_by_side(AT_ONCE, lambda body=body: post(CHAT, body))) <= {400, 404, 429, 503}
        with watch.during("fields and addresses that are refused"):
            for fields in (*(fields for _, fields in BEYOND), *({"messages": messages} for _, messages in SHAPES)):
                body = json.dumps({**said("x"), **fields}).encode()
                assert set(side_by_side(2, lambda body=body: post(CHAT, body))) <= {400, 429}
        nested = b'{"model":"default","messages":' + b"[" * (30 * MIB)
        wide = b"{" + b",".join(b'"%d":0' % number for number in range(2_500_000)) + b"}"
        for name, body in (("nested", nested), ("wide", wide)):
            for path in (CHAT, "/v1/embeddings", "/v1/search"):
                with watch.during(f"{name} bodies for {path}"):
                    side_by_side(AT_ONCE, lambda path=path, body=body: post(path, body))
        long = b'{"model":"default","messages":[{"role":"user","content":"' + b"x" * (30 * MIB) + b'"}]}'
        with watch.during("long texts"):
            side_by_side(AT_ONCE, lambda: post(CHAT, long))
        for name, events in COSTLY_EVENTS.items():
            provider.script.replace(None, Garbage(events))
            with watch.during(f"an answer with {name}"):
                side_by_side(AT_ONCE, lambda: post(CHAT, b'{"model":"default","stream":true,"messages":[]}'))
        provider.script.replace(None)
        with watch.during("the end"), host.client(host.token("good")) as good:
            assert good.post(CHAT, json=said("hello")).status_code == 200
