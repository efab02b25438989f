"""What the prompt of a new session costs, and what is done to what others have written on its way to the model: in this
process, without a server."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agent_runtime.context import PromptEnvironment, PromptInputs, Step, ToolCallRecord, system_prompt
from agent_runtime.context.provider_messages import serialize_step, serialize_user_message
from agent_runtime.ports import Note
from agent_runtime.workspace import PROMPT_CAPS, Home, read_bootstrap_files, read_instructions

from .load import Samples
from .targets import Live

ROUNDS = 300
NOW = 1_790_000_000_000
KIB = 1024
PROSE = "Tests first, then the change; say what you did. "
OTHER = "まずテスト、それから変更。何をしたか伝えること。🚀 "
SKILLS = [(f"package-{number}", PROSE * 2) for number in range(40)]


async def prompts(_live: Live, _provider: str, rounds: int = ROUNDS) -> Samples:
    """Microseconds from the files to the text, for a home that is nearly bare and for one that fills every cap; of a
    result of 8 KiB and of a message with a note, from the record to the bytes that are sent."""
    with tempfile.TemporaryDirectory(prefix="bench-") as data:
        bare, full = _home(Path(data) / "bare"), _home(Path(data) / "full")
        (bare.workspace / "AGENTS.md").write_text(PROSE)
        _fill(full)
        return {
            "bare": _taken(lambda: _prompt(bare), rounds),
            "full": _taken(lambda: _prompt(full), rounds),
            "result": _taken(_result(PROSE), rounds),
            "unicode": _taken(_result(OTHER), rounds),
            "message": _taken(_message, rounds),
        }


def _home(path: Path) -> Home:
    home = Home(path)
    home.prepare()
    return home


def _fill(home: Home) -> None:
    """Every file is a little longer than is shown, and there are folders to be looked into."""
    for name, cap in PROMPT_CAPS.items():
        (home.workspace / name).write_text((PROSE + "\n") * (cap // len(PROSE) + 1))
    (home.data_dir / "AGENTS.md").write_text((OTHER + "\n") * 400)
    for number in range(100):
        folder = home.workspace / "src" / f"module{number}"
        folder.mkdir(parents=True)
        for name in ("__init__.py", "AGENTS.md", *(f"part{part}.py" for part in range(10))):
            (folder / name).touch()


def _prompt(home: Home) -> str:
    found = read_instructions(home)
    material = PromptInputs("a1", "tester", ("default", PROSE), found, read_bootstrap_files(home), PROSE * 100, SKILLS)
    return system_prompt(material, PromptEnvironment(NOW, "default", str(home.workspace)))


def _result(text: str) -> Callable[[], object]:
    data = {"content": text * (8 * KIB // len(text.encode()))}
    step = Step("", [ToolCallRecord("c", "read", {"path": "notes"}, {"type": "output", "data": data, "metadata": {}})])
    return lambda: serialize_step(step)


def _message() -> bytes:
    notes = (Note("sent", "2026-11-05 09:30 UTC, Thursday"), Note("memory", PROSE, "fact 12"))
    return serialize_user_message([{"type": "text", "text": PROSE}], notes)


def _taken(what: Callable[[], object], rounds: int) -> list[float]:
    taken: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        what()
        taken.append((time.perf_counter() - began) * 1e6)
    return taken
