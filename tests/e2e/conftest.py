"""The runtime that most tests share, and the means to start one of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent_common.protocol import ModelCard, Pricing
from agent_testing import ScriptedProvider
from tests.measured import MEASURED

from .live import Runtime, eventually
from .reuse import Pool

MODELS = (
    "default",
    ModelCard(id="priced", context_limit=64_000, max_output_tokens=4096, pricing=Pricing(input=1000, output=2000)),
)
Start = Callable[..., Runtime]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("shared")
    with ScriptedProvider(models=MODELS) as provider, Runtime(provider, folder, **MEASURED) as runtime:
        yield runtime


@pytest.fixture
def agent(shared: Runtime) -> Iterator[Runtime]:
    """The shared runtime, with nothing running and a model that does what messages ask of it."""
    shared.provider.script.replace(None)
    eventually(lambda: not shared.status()["sessions"]["running"])
    shared.provider.clear()
    yield shared
    shared.provider.release()


@pytest.fixture
def provider(request: pytest.FixtureRequest) -> Iterator[ScriptedProvider]:
    """A model of the test's own, or that of the runtimes that it reuses."""
    if "reuse" in request.fixturenames:
        pool: Pool = request.getfixturevalue("_pool")
        yield pool.provider
        return
    with ScriptedProvider(models=MODELS) as provider:
        yield provider


@pytest.fixture(scope="session")
def _pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with ScriptedProvider(models=MODELS) as provider:
        pool = Pool(provider, tmp_path_factory.mktemp("reused"))
        yield pool
        pool.close()


@pytest.fixture
def reuse(_pool: Pool, provider: ScriptedProvider) -> Iterator[Start]:
    """`reuse(AGENT_MAX_QUEUE=1)` gives a runtime that an earlier test may have used, without its sessions and files.

    A test takes `start` if it reads whole tables (the database keeps rows of what was deleted), counts learnings (those
    of the test before may be written half a second late), or stops the server.
    """
    provider.script.replace(None)
    provider.clear()
    yield _pool.lend
    _pool.take_back()


@pytest.fixture(scope="module")
def unmeasured() -> list[dict[str, str]]:
    """The first runtime that a file starts is measured, and the others are not."""
    return [MEASURED]


@pytest.fixture
def start(provider: ScriptedProvider, tmp_path: Path, unmeasured: list[dict[str, str]]) -> Iterator[Start]:
    """Starts a runtime of the test's own: `start(AGENT_MAX_QUEUE=1)`."""

    def begin(**settings: object) -> Runtime:
        measured = unmeasured.pop() if unmeasured else {}
        return stack.enter_context(Runtime(provider, tmp_path / "data", **measured, **settings))

    with ExitStack() as stack:
        yield begin
