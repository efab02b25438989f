"""What it costs to count tokens: estimated, exact, and with tiktoken alone over the same texts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from pydantic_core import from_json

from agent_runtime.context.tokens import ContextUsage, TokenCalibration
from agent_runtime.context.tokens.encodings import Encoder, encoder
from agent_runtime.context.tokens.estimate import estimate
from agent_runtime.context.tokens.message_overhead import message_tokens
from tests.unit.context.tokens.corpus import CODE, DOCUMENTS, PROSE, SCHEMAS, answered, message

from .load import Samples
from .targets import Live

KIB = 1024
ROUNDS = 15
LOADING = """
import time
from pathlib import Path
from agent_runtime.context.tokens.encodings import encoder
resident = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
began, before = time.perf_counter(), resident()
encoder("o200k_base").count("a word")
print((time.perf_counter() - began) * 1000, resident() - before)
"""


async def counting(_live: Live, _provider: str, rounds: int = ROUNDS) -> Samples:
    """CPU of this process in microseconds per KiB of messages: code, documents, JSON and prose in many languages, as
    people write them and as tools answer. And what it takes to have `o200k_base` at hand, in a process of its own."""
    texts = [*CODE, *DOCUMENTS, *SCHEMAS, *(text * 4 for text in PROSE.values())]
    messages = [form for text in texts for form in (message("user", text), answered({"stdout": text}))]
    pieces = [piece for one in messages for piece in _pieces(one)]
    contents: list[str] = [from_json(one)["content"] for one in pieces]
    size = sum(map(len, pieces)) / KIB
    counter = encoder("o200k_base")
    samples: Samples = {"estimate": [], "exact": [], "alone": [], "ratio": [], "call": [], "load": [], "memory": []}
    for _ in range(rounds):
        alone = _cpu(lambda: _alone(counter, contents)) / size
        exact = _cpu(lambda: sum(message_tokens(one, counter.count) for one in pieces)) / size
        samples["estimate"].append(_cpu(lambda: sum(map(estimate, pieces))) / size)
        samples["exact"].append(exact)
        samples["alone"].append(alone)
        samples["ratio"].append(exact / alone)
        samples["call"].append(_call(messages))
    for _ in range(3):
        load, memory = _loaded()
        samples["load"].append(load)
        samples["memory"].append(memory)
    return samples


def _loaded() -> tuple[float, float]:
    """Milliseconds and MiB until the first text is counted, in a new process."""
    said = subprocess.run([sys.executable, "-c", LOADING], check=True, capture_output=True).stdout.split()
    return float(said[0]), float(said[1])


def _pieces(one: bytes) -> list[bytes]:
    """Messages of some KiB, none of which is sampled."""
    parsed = from_json(one)
    text: str = parsed["content"]
    return [message(parsed["role"], text[start : start + 2 * KIB]) for start in range(0, len(text), 2 * KIB)]


def _alone(counter: Encoder, contents: list[str]) -> int:
    encode: Callable[[str], list[int]] = counter._encoding.encode_ordinary
    return sum(len(encode(text)) for text in contents)


def _call(messages: list[bytes]) -> float:
    """Microseconds that a model call waits for its gauge, in a conversation of three hundred messages with two new."""
    gauge, seen = ContextUsage(TokenCalibration("some-model")), (messages * 10)[:300]
    gauge.occupancy(seen)
    return _cpu(lambda: gauge.occupancy([*seen, message("user", "word " * 200), message("assistant", "word " * 200)]))


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e6
