"""`agent chat` as a person sees it: typed into a terminal and read from its screen."""

# ruff: noqa: RUF001  the mark of the input

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Drop, Fail, Hang, Say

from ...live import TOKEN, Runtime, eventually, fresh
from .conftest import Open, chat_command

ESCAPES = "\x1b]52;c;aGk=\x07\x1b[2J\x1b]8;;http://evil.example\x07click\x1b]8;;\x07 [bold]x[/bold] \u202edrawrof"
RED = {"label": "red"}
TABLE = "| 名前 | 数 |\n|---|---|\n| 林檎 | 3 |\n"


def ask_before(agent: Runtime, session: str, *tools: str) -> None:
    """From now on calls of these tools wait for a person."""
    agent.provider.script.replace([Say("ready")])
    assert agent.chat("hello", session_id=session).status_code == 200
    rules = [{"permission": tool, "pattern": "*", "action": "ask"} for tool in tools]
    agent.http.put(f"/sessions/{session}/permissions", json={"rules": rules}).raise_for_status()


def test_what_is_typed_while_the_chat_opens_is_sent(agent: Runtime, open_chat: Open) -> None:
    agent.provider.script.replace([Say("It was sent.")])
    terminal = open_chat(agent, "-s", fresh("ahead"), ready=False)
    terminal.say("hello")
    terminal.see("❯ hello", "● It was sent.")


def test_a_conversation_with_tools_and_approvals(agent: Runtime, open_chat: Open) -> None:
    session = fresh("chat")
    ask_before(agent, session, "bash", "edit")
    agent.http.put("/workspace/fence.txt", content="colour: white\n").raise_for_status()
    agent.provider.script.replace(
        [
            Say("# The plan\n\n1. paint\n2. **dry**\n", reasoning="A fence."),
            Call("edit", {"path": "fence.txt", "old_string": "white", "new_string": "blue"}, text="I paint."),
            Call("bash", {"command": "sed -n 1p fence.txt"}),
            Call("bash", {"command": "sed -n 2p fence.txt"}),
            Say("It is `blue`."),
        ]
    )
    terminal = open_chat(agent, "-s", session)
    terminal.see("hello", "ready")  # what was said before
    terminal.say("plan it")
    terminal.see("❯ plan it", "✻ A fence.", "● The plan", "1. paint", "2. dry")
    terminal.say("do it")
    terminal.see("Allow edit?", "1 - colour: white", "1 + colour: blue", "asks for approval", "edit *")
    terminal.press("y", "Enter")
    terminal.see(
        "✓ edit fence.txt  +1 -1",
        "Allow bash?",
        "$ sed -n 1p fence.txt",
        "1. Yes, once",
        "2. Yes, and always",
        "3. Yes, and always",
    )
    terminal.press("Down", "Enter")
    terminal.see("Always allowed in this session: bash sed -n 1p fence.txt", "✓ bash sed -n 1p", "$ sed -n 2p")
    terminal.say("enough painted")
    terminal.see("✗ bash sed -n 2p fence.txt  denied", "● It is blue.", "tokens")
    status = re.compile(r"default · hello · \d+% context")
    terminal.wait(lambda screen: status.search(screen) is not None, status.pattern)
    assert agent.http.get("/workspace/fence.txt").text == "colour: blue\n"
    assert "enough painted" in str(agent.provider.completions[-1].messages)
    terminal.press("C-d")
    assert terminal.exit_code() == 0


def test_a_rule_that_is_added_before_the_first_message_holds_for_its_calls(agent: Runtime, open_chat: Open) -> None:
    agent.provider.script.replace([Call("bash", {"command": "echo hi"}), Say("Done.")])
    terminal = open_chat(agent, "-s", fresh("ruled"))
    terminal.say("/permissions deny")
    terminal.see("✗ ")
    terminal.say("/permissions ask bash *")
    terminal.see("1.   ask", "session")
    terminal.say("/permissions allow read *")
    terminal.see("2.   allow")
    terminal.say("go")
    terminal.see("Allow bash?", "a session rule for bash * asks for approval")
    terminal.press("y", "Enter")
    terminal.see("● Done.")


def approval_of(agent: Runtime, session: str) -> dict[str, Any] | None:
    """The approval that waits in a session."""
    waiting = agent.get(f"/sessions/{session}").json()["status"].get("pending", ())
    return next((one for one in waiting if one["kind"] == "approval"), None)


def test_without_a_terminal_it_is_plain_lines(agent: Runtime, tmp_path: Path) -> None:
    session = fresh("plain")
    ask_before(agent, session, "bash")
    question = {"questions": [{"question": "Which colour?", "options": [{"label": "blue"}, {"label": "red"}]}]}
    agent.provider.script.replace(
        [Call("question", question), Call("bash", {"command": "echo hi"}), Say(f"It is red. {ESCAPES}\n"), Say("Bye")]
    )
    command = [*chat_command(agent, tmp_path), "-s", session]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    ) as chat:
        assert chat.stdin is not None
        chat.stdin.write("paint\n2\nperhaps\nyes\n")
        chat.stdin.flush()
        asked = eventually(lambda: approval_of(agent, session))
        out, err = chat.communicate(f"yes {asked['code']}\n/cost\n", timeout=60)
    assert chat.returncode == 0, err
    assert "/cost was sent as a message" in err
    assert agent.provider.completions[-1].last_user_text == "/cost"
    lines = out.splitlines()
    assert lines[:3] == ["? Which colour?", "  1. blue", "  2. red"]
    assert '? allow bash {"command": "echo hi"}' in lines
    how = f"write `yes {asked['code']}` or `no {asked['code']}`"
    assert sum(how in line for line in lines) == 3, "neither `perhaps` nor `yes` decides"
    assert any(line.startswith("✓ bash echo hi") for line in lines)
    assert lines[-1] == "Bye"
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\\x1b]52;c;" in out


@pytest.mark.slow
def test_questions_are_answered_by_number_by_choice_and_by_text(agent: Runtime, open_chat: Open) -> None:
    asked = [
        {
            "question": "Which colour?",
            "header": "Paint",
            "options": [{"label": "blue", "description": "calm"}, {"label": "red"}],
        },
        {
            "question": "Which days?",
            "multi_select": True,
            "options": [{"label": "Mon"}, {"label": "Tue"}, {"label": "Wed"}],
        },
        {"question": "Who paints?"},
    ]
    agent.provider.script.replace([Call("question", {"questions": asked}), Say("Noted.")])
    terminal = open_chat(agent)
    terminal.say("paint the fence")
    terminal.see("Which colour?", "1 of 3", "1. blue  calm")
    terminal.type("2")
    terminal.press("Enter")
    terminal.see("Which days?")
    terminal.press("Space", "Down", "Down", "Space")
    terminal.see("1. ◉ Mon", "3. ◉ Wed")
    terminal.press("Enter")
    terminal.see("Who paints?")
    terminal.say("my 友達")
    terminal.see("? Which colour?", "→ red", "→ Mon, Wed", "→ my 友達", "Noted.")
    answers = agent.provider.completions[-1].messages[-1]["content"]
    assert '[["red"],["Mon","Wed"],["my 友達"]]' in answers.replace(" ", "").replace("my友達", "my 友達")


@pytest.mark.slow
def test_a_running_turn_is_steered_queued_behind_and_stopped(agent: Runtime, open_chat: Open) -> None:
    agent.provider.script.replace(
        [
            Hang(reply=Say(calls=(Call("todo", {"todos": [{"content": "Paint", "status": "pending"}]}),))),
            Say("Blue then."),
            Hang(after=2, reply=Say("one two three")),
            Say("Here again."),
        ]
    )
    terminal = open_chat(agent)
    terminal.say("paint the fence")
    agent.provider.wait_for(1)
    terminal.say("make it blue")
    terminal.see("joins at the next step: make it blue")
    terminal.type("and then the gate")
    terminal.see("❯ and then the gate")
    terminal.press("Tab")
    terminal.see("queued: and then the gate")
    agent.provider.release()
    terminal.see("○ Paint", "❯ make it blue  joined the running turn", "Blue then.", "❯ and then the gate", "● one two")
    terminal.press("Escape")
    terminal.see("■ Stopped.", "Message, / for commands")
    terminal.say("go on")
    terminal.see("Here again.")
    steered = agent.provider.completions[1]
    assert "make it blue" in str(steered.messages)
    assert "the gate" not in str(steered.messages)


@pytest.mark.slow
def test_a_server_that_is_killed_is_seen_and_the_chat_continues(start: object, open_chat: Open) -> None:
    runtime: Runtime = start()  # type: ignore[operator]
    runtime.provider.script.replace([Say("First.")])
    terminal = open_chat(runtime)
    terminal.say("one")
    terminal.see("● First.", "% context")
    port = runtime.url.rsplit(":", 1)[1]
    os.kill(runtime.process.pid, signal.SIGKILL)
    terminal.see("connection lost")
    terminal.say("never mind")
    terminal.see("The agent does not answer")
    terminal.press("Escape")
    terminal.wait(lambda screen: screen.count("❯ never mind") == 2, "the message, and its text in the input again")
    terminal.press("C-u")
    terminal.say("two, while it is away")
    terminal.see("❯ two, while it is away", "The agent does not answer")
    runtime.env["AGENT_PORT"] = port
    runtime.provider.script.replace([Hang(after=2, reply=Say("Second reply is here."))])
    runtime.start()
    terminal.see("● Second reply")
    terminal.gone("connection lost")
    os.kill(runtime.process.pid, signal.SIGKILL)
    terminal.see("The agent does not answer")
    runtime.start()
    terminal.see("✗ ", "Message, / for commands")  # a chat in the middle of a turn ends as interrupted
    runtime.provider.script.replace([Say("Third.")])
    terminal.say("three")
    screen = terminal.see("● Third.", history=True)
    assert screen.count("❯ two, while it is away") == 1
    assert "never mind" not in str([request.messages for request in runtime.provider.completions])
    assert screen.count("Second reply") == 1


@pytest.mark.slow
def test_the_terminal_is_resized_while_a_reply_comes(agent: Runtime, open_chat: Open) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    agent.provider.script.replace([Hang(after=61, reply=Say(f"Begin\n\n{words} end"))])
    # Without coverage, which slows the program down: a terminal that is resized again before it has drawn moves lines.
    terminal = open_chat(agent, COVERAGE_PROCESS_CONFIG="")
    terminal.say("long")
    terminal.see("word59", "Esc stops")
    for columns in (60, 45, 90, 50):
        terminal.resize(columns, 25)
        terminal.see("word59", "Esc stops")
    agent.provider.release()
    screen = terminal.see("word59 end", "Message, / for", history=True)
    assert screen.count("word59") == 1
    assert screen.count("Message, / for") == 1
    assert screen.count("Esc stops") == 0
    assert screen.count("❯ long") == 1


@pytest.mark.slow
def test_messages_of_several_lines_and_wide_characters(agent: Runtime, open_chat: Open, tmp_path: Path) -> None:
    agent.provider.script.replace([Say(f"日本語の返事です。🙂\n\n{TABLE}"), Say("ok"), Say("fine")])
    terminal = open_chat(agent, columns=60, rows=20)
    terminal.type("一行目")
    terminal.press("M-Enter")
    terminal.type("二行目\\")
    terminal.press("Enter")
    terminal.type("third")
    terminal.see("third")
    terminal.press("Enter")
    terminal.see("❯ 一行目", "  二行目", "  third", "日本語の返事です。🙂", "林檎  3")
    terminal.paste("def f():\n    return 1")
    terminal.see("return 1")
    terminal.press("Enter")
    terminal.see("● ok")
    assert agent.provider.completions[0].last_user_text == "一行目\n二行目\nthird"
    assert agent.provider.completions[1].last_user_text == "def f():\n    return 1"
    terminal.press("C-d")
    assert terminal.exit_code() == 0
    (history,) = (tmp_path / "state" / "agent" / "history").iterdir()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    again = open_chat(agent, "-c", columns=60, rows=20)
    again.see("● ok")
    again.press("Up")
    again.see("return 1")


@pytest.mark.slow
def test_what_the_agent_says_drives_no_terminal(agent: Runtime, open_chat: Open) -> None:
    agent.provider.script.replace(
        [Call("bash", {"command": "printf '\\033[2Jgone'", "description": ESCAPES}, text=ESCAPES), Say(ESCAPES)]
    )
    terminal = open_chat(agent)
    terminal.say("attack")
    screen = terminal.wait(lambda screen: screen.count("]52;c;aGk=") == 2, "both texts")
    assert "\\x1b[2J" in screen
    assert "[bold]x[/bold]" in screen
    assert "\\u202e" in screen
    assert "❯ attack" in screen  # nothing has cleared the screen
    assert "\\x1b[2Jgone" in screen


@pytest.mark.slow
def test_commands_and_completion(agent: Runtime, open_chat: Open) -> None:
    agent.provider.script.replace([Say("Paris."), Say("Rome."), Say("Bern.")])
    agent.http.put("/workspace/notes/plan.md", content="tea").raise_for_status()
    terminal = open_chat(agent, columns=100, rows=40)
    for asked, answer in (("France?", "Paris."), ("Italy?", "Rome.")):
        terminal.say(asked)
        terminal.see(f"● {answer}")
    terminal.type("/co")
    terminal.see("/compact", "/context", "/cost")
    terminal.press("C-u")
    terminal.type("see @no")
    terminal.see("notes/  folder")
    terminal.press("Tab")
    terminal.see("see @notes/")
    terminal.type("pl")
    terminal.see("plan.md  3 B")
    terminal.press("Tab")
    terminal.see("see @notes/plan.md", "% context")  # the list is closed
    terminal.press("C-u")
    terminal.say("/rewind")
    terminal.see("before which message?", "2. Italy?")
    terminal.press("2")
    terminal.see("2 messages are hidden", "❯ Italy?")
    terminal.press("C-u")
    terminal.say("/agent plan")
    terminal.see("From the next message on plan answers")
    terminal.say("Switzerland?")
    terminal.see("● Bern.", "plan · default", "❯ /agent plan")
    terminal.say("/agent")
    terminal.see("plan (now)")
    assert re.search(r"❯ \d[.] plan \(now\)", terminal.screen())
    terminal.press("Enter")
    terminal.wait(lambda screen: screen.count("on plan answers") == 2, "that it stays")
    assert "Italy" not in str(agent.provider.completions[-1].messages)
    for typed, seen in (
        ("/context", "of 128,000 tokens"),
        ("/cost", "input"),
        ("/files notes", "plan.md"),
        ("/permissions deny bash rm *", "1.   deny"),
        ("/status", "confinement"),
        ("/nonsense", "there is no command /nonsense"),
        ("/model nowhere", "there is no model"),
        ("/fork Copy", "A copy of the session: Copy"),
        ("/new", "A new session begins"),
        ("/fork", "the session begins with its first message"),
    ):
        terminal.say(typed)
        terminal.see(seen, history=True)  # a list may be longer than the screen
    terminal.say("/resume")
    terminal.see("Continue which session?", "Copy")
    terminal.press("1")
    terminal.see("Continuing Copy")
    terminal.say("/quit")
    assert terminal.exit_code() == 0


@pytest.mark.slow
def test_a_turn_of_another_window_is_shown(agent: Runtime, open_chat: Open) -> None:
    session = fresh("shared")
    agent.provider.script.replace([Say("ready"), Hang(after=2, reply=Say("slow and steady reply"))])
    agent.chat("hello", session_id=session)
    first = open_chat(agent, "-s", session)
    first.see("● ready")
    second = open_chat(agent, "-s", session)
    second.see("● ready")
    second.say("from the second")
    first.see("❯ from the second  from another window", "slow and")
    third = open_chat(agent, "-s", session, ready=False)  # in the middle of the turn
    third.see("❯ from the second", "slow and", "Esc stops")
    agent.provider.release()
    for terminal in (first, second, third):
        screen = terminal.see("● slow and steady reply", "Message, / for")
        assert screen.count("slow and") == 1


@pytest.mark.slow
def test_what_is_answered_elsewhere_makes_room_for_the_next_card(agent: Runtime, open_chat: Open) -> None:
    session = fresh("cards")
    ask_before(agent, session, "bash")
    calls = tuple(Call("bash", {"command": f"echo {name}"}) for name in ("first", "second"))
    agent.provider.script.replace([Say(calls=calls), Say("Done.")])
    terminal = open_chat(agent, "-s", session)
    terminal.say("go")
    terminal.see("▌ $ echo first")
    asked = agent.get(f"/sessions/{session}").json()["status"]["pending"]
    (first,) = (one["id"] for one in asked if one["input"]["command"] == "echo first")
    agent.http.post(f"/chat/{session}/answer", json={"id": first, "decision": "once"}).raise_for_status()
    terminal.see("▌ $ echo second")
    terminal.press("y", "Enter")
    terminal.see("● Done.")


@pytest.mark.slow
def test_failures_are_shown_and_nothing_is_lost(agent: Runtime, open_chat: Open) -> None:
    agent.provider.script.replace([Fail(401, "no key"), Drop(after=3), Say("Fine.")])
    terminal = open_chat(agent, NO_COLOR="1")
    terminal.say("first")
    terminal.see("✗ ", "no key")
    terminal.say("second")
    terminal.see("● one two three", "cannot be reached")
    terminal.say("third")
    terminal.see("● Fine.")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.screen(colours=True))
    terminal.type("typed")
    terminal.press("C-c")
    terminal.see("Ctrl-C again exits", "Message, / for")
    terminal.press("C-c")
    assert terminal.exit_code() == 0


@pytest.mark.slow
def test_an_agent_that_is_not_there_is_said_at_once(open_chat: Open, agent: Runtime) -> None:
    command = [sys.executable, "-m", "agent_client", "chat", "--url", "http://127.0.0.1:9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "nothing listens at" in done.stderr
    eventually(lambda: agent.status()["state"] == "idle")


@pytest.mark.slow
def test_all_of_a_long_call_can_be_read_before_it_is_allowed(agent: Runtime, open_chat: Open) -> None:
    session = fresh("long")
    ask_before(agent, session, "bash")
    command = "\n".join(f"echo {number}" for number in range(60))
    agent.provider.script.replace([Call("bash", {"command": command}), Say("Done.")])
    terminal = open_chat(agent, "-s", session, columns=60, rows=20)
    terminal.say("count")
    screen = terminal.see("lines, which are above", "1. Yes, once", "echo 59", "Esc stops the turn")
    assert "echo 30" not in screen
    terminal.see(*(f"echo {number}\n" for number in range(60)), history=True)
    terminal.press("Escape")
    terminal.see("■ Stopped.", "Message, / for")
    assert len(agent.provider.completions) == 2


@pytest.mark.slow
def test_the_example_of_the_page_without_a_terminal_runs(agent: Runtime, tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/how-to/chat.md").read_text("utf-8")
    (example,) = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", page)
    agent.provider.script.replace(
        [Call("question", {"questions": [{"question": "Which colour?"}]}), Say("It is blue.")]
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"AGENT_URL": agent.url, "AGENT_TOKEN": TOKEN, "HOME": str(tmp_path), "PATH": path}
    done = subprocess.run(
        ["bash", "-c", example[0]], env=os.environ | env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, example[1], "")
