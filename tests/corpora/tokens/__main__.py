"""`python -m tests.corpora.tokens`: how near to the window agents come, with the estimate and with bytes / 4."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import mean

from agent_runtime.context.tokens import ContextUsage, TokenCalibration
from tests.unit.context.tokens import corpus
from tests.unit.context.tokens.corpus import PROSE, CountingProvider, answered, called, message, results
from tests.unit.context.tokens.test_context_usage import PROMPT, TOOLS

WINDOWS, FACTORS = (16_000, 32_000, 128_000), (0.7, 1.0, 1.3, 1.6)
SESSIONS, TURNS = 6, 60
NEAR = 0.6
"""Share of the window from which on the error of a call counts."""
SUMMARY = message("user", "summary " * 300)


class NoFactor(TokenCalibration):
    """Learns nothing from reports."""

    def learn(self, estimated: float, reported: int, *, whole_request: bool = False, trusted: bool = False) -> None:
        return


class Quarter:
    """The last report, and a quarter of the bytes that came since."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._reported, self._messages = len(TOOLS or b"") // 4, 0

    def occupancy(self, messages: list[bytes], tools: bytes | None) -> int:
        del tools  # a part of the first report
        return self._reported + sum(map(len, messages[self._messages :])) // 4

    def record_count(self, messages_sent: int, prompt_tokens: int) -> None:
        self._reported, self._messages = prompt_tokens, messages_sent


@dataclass(slots=True)
class Tally:
    """What came of the calls of one way to count."""

    calls: int = 0
    overflows: int = 0
    errors: list[float] = field(default_factory=list[float])

    def __str__(self) -> str:
        return f"{self.overflows} of {self.calls}, {mean(self.errors):.1%}"


def long_result(rng: random.Random) -> str:
    """A large result of a tool: files, JSON and logs, hexadecimal, base64, or prose."""
    size, kind = rng.randint(2_000, 60_000), rng.random()
    if kind < 0.35:
        text = "".join(rng.choice((*corpus.CODE, *corpus.DOCUMENTS, *corpus.SCHEMAS)) for _ in range(40))
        start = rng.randrange(max(1, len(text) - size))
        return text[start : start + size]
    if kind < 0.75:
        text = ""
        while len(text) < size:
            text += "\n".join(results(rng))
        return text[:size]
    if kind < 0.85:
        return rng.randbytes(size // 2).hex()
    if kind < 0.92:
        return base64.b64encode(rng.randbytes(size * 3 // 4)).decode()
    prose = rng.choice(list(PROSE.values()))
    return f"{prose} " * (size // len(prose.encode()))


def turn(rng: random.Random, language: str) -> Iterator[bytes]:
    yield message("user", " ".join([PROSE[language]] * rng.randint(1, 3)))
    for _ in range(rng.randint(1, 6)):
        yield called("bash", {"command": "cat notes/plan.md"})
        output = long_result(rng) if rng.random() < 0.3 else rng.choice(list(results(rng)))
        yield answered({"stdout": output, "exit_code": 0})
    yield message("assistant", " ".join([PROSE[language]] * rng.randint(1, 4)))


def play(gauge: ContextUsage | Quarter, provider: CountingProvider, limit: int, seed: int, tally: Tally) -> None:
    """One long session, which is compacted to a summary and its last message whenever it seems too long."""
    rng = random.Random(seed)
    language, messages, usable = rng.choice(list(PROSE)), [PROMPT], limit - min(20_000, limit // 4)
    for one in (one for _ in range(TURNS) for one in turn(rng, language)):
        messages.append(one)
        if one.startswith(b'{"role":"assistant"'):
            continue
        estimate, true = gauge.occupancy(messages, TOOLS), provider.prompt_tokens(messages, TOOLS)
        if true > limit * NEAR:
            tally.errors.append(abs(estimate / true - 1))
        if estimate >= usable:
            messages = [PROMPT, SUMMARY, *([one] if len(one) < limit else [])]
            gauge.reset()
            gauge.occupancy(messages, TOOLS)
            true = provider.prompt_tokens(messages, TOOLS)
        tally.calls += 1
        if true > limit:
            tally.overflows += 1
            messages = [PROMPT, SUMMARY]
            gauge.reset()
        else:
            gauge.record_count(len(messages), true)


def main() -> None:
    print("| window | estimate: overflows, mean error | without the factor | bytes / 4 |\n|---|---|---|---|")
    for limit in WINDOWS:
        tallies = (Tally(), Tally(), Tally())
        for factor in FACTORS:
            provider, learning, fixed = CountingProvider(factor), TokenCalibration("unknown"), NoFactor("unknown")
            for seed in range(SESSIONS):
                gauges = (ContextUsage(learning), ContextUsage(fixed), Quarter())
                for gauge, tally in zip(gauges, tallies, strict=True):
                    play(gauge, provider, limit, seed, tally)
        print(f"| {limit:,} | {' | '.join(map(str, tallies))} |", flush=True)


if __name__ == "__main__":
    main()
