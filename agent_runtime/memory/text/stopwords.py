"""Find the common words of a query, in the languages of `stopwords.txt`.

Questions have words that statements lack, so by rarity alone `when` would seem the most telling word of a query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from .normalize import fold

DATA = Path(__file__).with_name("stopwords.txt")


def common_words(words: Iterable[str]) -> set[str]:
    """Return the folded words that are common in the language that most of the words belong to, or the languages."""
    asked = set(words)
    votes = Counter(language for word in asked for language in _languages().get(word, ()))
    if not votes:
        return set()
    most = max(votes.values())
    spoken = {language for language, count in votes.items() if count == most}
    return {word for word in asked if spoken & _languages().get(word, frozenset())}


@cache
def _languages() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    alike: dict[frozenset[str], frozenset[str]] = {}  # hundreds of words share one set
    language = ""
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            language = line.strip("[]")
        elif not line.startswith("#"):
            for word in fold(line).split():
                now = found.get(word, frozenset()) | {language}
                found[word] = alike.setdefault(now, now)
    return found
