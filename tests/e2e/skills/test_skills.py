"""Skills that somebody drops into a folder: good ones, a broken one, one that raises and one that never returns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_testing import Call, Say, ScriptedProvider

from ..live import Runtime, fresh

GOOD = """
    from agent_runtime.skills import skill

    @skill(name="add", description="Add two numbers.", parameters={"a": {"type": "integer"}, "b": {"type": "integer"}})
    def add(a: int, b: int):
        return {"sum": a + b}

    @skill(name="raise_it", description="Raise.", parameters={})
    def raise_it():
        raise RuntimeError("the kettle is empty")

    @skill(name="never", description="Never return.", parameters={}, timeout=0.5)
    def never():
        import time
        time.sleep(600)

    @skill(name="ask", description="Ask a model.", parameters={"text": {"type": "string"}})
    async def ask(text: str, *, mesh_client=None):
        reply = await mesh_client.chat([{"role": "user", "content": text}])
        return {"heard": reply["content"]}
"""


@pytest.fixture(scope="module")
def skilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("skilled")
    skills = folder / "skills"
    skills.mkdir()
    (skills / "good.py").write_text(textwrap.dedent(GOOD))
    (skills / "broken.py").write_text("this is not python")
    with ScriptedProvider() as provider, Runtime(provider, folder / "data", AGENT_SKILLS_DIR=skills) as runtime:
        yield runtime


def call(agent: Runtime, name: str, **arguments: object) -> dict[str, object]:
    """One call of a skill, as a JSON reply shows it."""
    agent.provider.script.replace([Call(name, arguments), Say("done")])
    reply = agent.chat("go", session_id=fresh("s"))
    assert reply.status_code == 200, reply.text
    [output] = reply.json()["tool_outputs"]
    return output


def test_the_card_lists_what_works_and_what_does_not(skilled: Runtime) -> None:
    card = skilled.get("/capabilities").json()
    assert {"add", "raise_it", "never", "ask"} <= set(card["tools"])
    assert card["tool_sources"]["add"] == "custom"
    states = {skill["file"].rsplit("/", 1)[-1]: skill for skill in card["skills"] if skill["state"] == "failed"}
    assert "broken.py" in states
    assert states["broken.py"]["error"]


def test_a_skill_is_called_like_any_tool(skilled: Runtime) -> None:
    output = call(skilled, "add", a=2, b=3)
    assert output["state"] == "output-available"
    assert isinstance(output["output"], dict)
    assert output["output"]["type"] == "output"
    assert "5" in str(output["output"])


def test_a_skill_that_raises_tells_the_model_why(skilled: Runtime) -> None:
    output = call(skilled, "raise_it")
    assert output["state"] == "output-error"
    assert "the kettle is empty" in str(output["output"])
    skilled.still_works()


def test_a_skill_that_never_returns_meets_its_deadline(skilled: Runtime) -> None:
    output = call(skilled, "never")
    assert output["state"] == "output-error"
    assert "0.5" in str(output["output"])
    assert call(skilled, "add", a=1, b=1)["state"] == "output-available"


def test_wrong_arguments_are_refused_before_the_skill_runs(skilled: Runtime) -> None:
    assert call(skilled, "add", a="two", b=3)["state"] == "output-error"


def test_a_skill_reaches_the_mesh_without_a_token(skilled: Runtime) -> None:
    skilled.provider.script.replace([Call("ask", {"text": "who are you?"}), Say("the oracle"), Say("done")])
    reply = skilled.chat("go", session_id=fresh("s")).json()
    [output] = reply["tool_outputs"]
    assert output["state"] == "output-available", output
    assert "the oracle" in str(output["output"])
    assert reply["response"] == "done"


def test_files_of_the_workspace_stand_in_the_prompt(provider: ScriptedProvider, tmp_path: Path) -> None:
    workspace = tmp_path / "data" / "workspace"
    workspace.mkdir(parents=True)
    for name in ("AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md"):
        (workspace / name).write_text(f"a line of {name}\n")
    with Runtime(provider, tmp_path / "data", AGENT_ID="librarian") as agent:
        agent.chat("hi")
        [asked] = provider.completions
        system = asked.messages[0]
        assert system["role"] == "system"
        assert "librarian" in system["content"]
        for name in ("AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md"):
            assert f"a line of {name}" in system["content"]
        (workspace / "SOUL.md").write_text("another soul\n")
        agent.chat("hi again")
        assert provider.completions[1].messages[0] == system, "the prefix of a session never changes"
