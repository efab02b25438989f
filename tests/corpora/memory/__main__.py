"""`python -m tests.corpora.memory`: what questions share with their facts, and what our memory and plain FTS5 find."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from . import corpus, overlap
from .baselines import TOKENIZERS, Both, Plain
from .corpus import Fact, Question
from .engine import remembered
from .evaluate import Report, evaluate, table


async def baselines(facts: Sequence[Fact], questions: Sequence[Question]) -> Mapping[str, Report]:
    """Evaluate plain FTS5 with each tokenizer, and with both of them together."""
    found: dict[str, Report] = {}
    for tokenizer in TOKENIZERS:
        with closing(Plain(tokenizer, facts)) as plain:
            found[tokenizer] = await evaluate(plain.search, questions)
    for name, pairs in (("both", False), ("both, pairs", True)):
        with closing(Both(facts, pairs=pairs)) as both:
            found[name] = await evaluate(both.search, questions)
    return found


async def ours(facts: Sequence[Fact], questions: Sequence[Question]) -> Report:
    """What the memory of the runtime makes of them."""
    with TemporaryDirectory() as folder:
        async with remembered(Path(folder), facts) as search:
            return await evaluate(search, questions)


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.corpora.memory", description=__doc__)
    parser.add_argument("--heldout", action="store_true", help="the questions that nothing is tuned by")
    parser.add_argument("--missed", action="store_true", help="list the questions whose fact is not in the first five")
    options = parser.parse_args()
    facts, questions = corpus.facts(), corpus.questions(corpus.HELDOUT if options.heldout else corpus.QUESTIONS)
    texts = {fact.id: fact.text for fact in facts}
    memory = await ours(facts, questions)
    print(overlap.report(questions, texts))
    print()
    print(table({"memory": memory, **await baselines(facts, questions)}))
    for found in memory.missed if options.missed else ():
        print(f"{found.question.id} at {found.place or '-'}: {found.question.text} <- {texts[found.question.fact]}")


if __name__ == "__main__":
    asyncio.run(main())
