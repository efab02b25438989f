"""What must hold when a storm is over, read from what people see and held against what the bots have stored."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .persons import FAILED, Person, is_taken_as_answer
from .phones import Shown
from .talk import RUNS, words_in
from .world import ASKS, World

FORGOTTEN_SECONDS = 6.0
"""After this time no limit of an earlier process holds."""
UNKNOWN = "outcome unknown"
"""What is shown of a call that was cut off by the end of its agent: a turn that goes on may tell of it."""
ELSEWHERE = ("elsewhere", "is over")


def is_quiet(world: World) -> bool:
    """Whether the bots have nothing to do any more."""
    statement = (
        "SELECT (SELECT count(*) FROM updates WHERE finished_at IS NULL)"
        " + (SELECT count(*) FROM posts WHERE state = 'waiting')"
        " + (SELECT count(*) FROM replies WHERE state = 'running')"
        " + (SELECT count(*) FROM requests WHERE state = 'open')"
    )
    return world.rows(statement) == [(0,)]


def faults_of(world: World, persons: Sequence[Person]) -> list[str]:
    """Everything that is wrong, in words."""
    return [*_violations(world), *(fault for person in persons for fault in _Chat(world, person).faults())]


def _violations(world: World) -> Iterator[str]:
    """Calls that came too early, unless it is an earlier process that the platform had told so."""
    for one in (*world.telegram.violations, *world.discord.violations):
        age = one.at - max(start for start in world.starts if start <= one.at)
        if age > FORGOTTEN_SECONDS:
            yield f"{age:.1f} s after a start: {one}"


class _Chat:
    """One person's chat."""

    def __init__(self, world: World, person: Person) -> None:
        self._person, self._name = person, person.phone.name
        self._shown = person.phone.shown()
        where = (self._name.partition(":")[0], person.phone.chat)
        self._replies = world.rows(
            "SELECT platform_message, key, state FROM replies WHERE bot = ? AND chat = ? ORDER BY position", *where
        )
        self._messages: dict[str, list[str]] = defaultdict(list)
        for key, message in world.rows(
            "SELECT posts.key, message FROM post_messages JOIN posts ON posts.key = post"
            " WHERE bot = ? AND chat = ? AND NOT absent ORDER BY posts.position, number",
            *where,
        ):
            self._messages[key].append(message)
        self._lost = world.rows("SELECT key, pieces FROM posts WHERE bot = ? AND chat = ? AND state = 'lost'", *where)
        self._cards = world.rows("SELECT token, kind, input, verdict FROM requests WHERE bot = ? AND chat = ?", *where)
        self._arrived = world.rows(
            "SELECT message FROM updates WHERE bot = ? AND chat = ? AND message IS NOT NULL ORDER BY arrival", *where
        )
        found = [*world.agent_folder.rglob(RUNS)]
        self._runs = Counter(found[0].read_text().split() if found else [])

    def faults(self) -> Iterator[str]:
        checks = (self._lost_posts, self._strangers, self._missing, self._unanswered, self._halves)
        for check in (*checks, self._decisions, self._order):
            for fault in check():
                yield f"{self._name}: {check.__name__.strip('_')}: {fault}"

    def _text(self, key: str) -> str:
        """What people see of a post."""
        texts = {one.id: one.text for one in self._shown}
        return "\n".join(texts.get(message, "(gone)") for message in self._messages[key])

    def _lost_posts(self) -> Iterator[str]:
        yield from (f"{key}: {pieces}" for key, pieces in self._lost)

    def _strangers(self) -> Iterator[str]:
        """Messages that belong to no post: orphans of a process that died."""
        known = {message for messages in self._messages.values() for message in messages}
        for one in self._shown:
            if one.id not in known:
                yield repr(one)

    def _missing(self) -> Iterator[str]:
        seen = {one.id for one in self._shown}
        for key, messages in self._messages.items():
            yield from (f"the message {one} of {key}" for one in messages if one not in seen)
        for message, count in Counter(one for messages in self._messages.values() for one in messages).items():
            if count > 1:
                yield f"the message {message} belongs to {count} posts"

    def _unanswered(self) -> Iterator[str]:
        """Each message has one reply, or is the answer to a question. Its word has one end, unless its turn is shown to
        have failed."""
        replies = Counter(message for message, _, _ in self._replies)
        keys = {message: (key, state) for message, key, state in self._replies}
        ends = Counter(word for one in self._shown for word in words_in("end", one.text))
        for word, (message, id) in self._person.written.items():
            answers = is_taken_as_answer(message, self._shown)
            if replies[id] + answers != 1:
                yield f"{message.text!r} has {replies[id]} replies, and answers {answers:d} questions"
            if replies[id] != 1:
                continue
            key, state = keys[id]
            if ends[word] > 1:
                yield f"{message.text!r} is answered {ends[word]} times"
            if not ends[word] and not self._failed(word, key, state):
                yield f"{message.text!r} is {state}, and shown as {self._text(key)!r}"

    def _failed(self, word: str, key: str, state: str) -> bool:
        if state == "done":
            return FAILED in self._text(key)
        return any(word in self._text(other) and FAILED in self._text(other) for other in self._messages)

    def _halves(self) -> Iterator[str]:
        """An answer that has begun is complete."""
        for key in self._messages:
            text = self._text(key)
            if words_in("answer", text) != words_in("end", text) and FAILED not in text:
                yield f"{key}: {text[:60]!r} ... {text[-60:]!r}"
        empty = [one for one in self._shown if not one.text.strip()]
        yield from (f"{one.id} is empty" for one in empty)

    def _decisions(self) -> Iterator[str]:
        yield from (f"{one.id} has the buttons {one.buttons}" for one in self._shown if one.buttons)
        for token, kind, given, verdict in self._cards:
            if verdict is None or any(word in verdict for word in ELSEWHERE):
                yield f"{kind} {given}: {verdict}"
            if verdict is not None and verdict.replace("\\", "")[:8] not in self._text(token):
                yield f"{kind} is shown as {self._text(token)!r}, not {verdict!r}"
            if kind == "approval":
                yield from self._ran(json.loads(given)["command"], verdict or "")
        for word, (message, _) in self._person.written.items():
            if message.kind == "run" and self._runs[word] > 1:
                yield f"{word} ran {self._runs[word]} times"

    def _ran(self, command: str, verdict: str) -> Iterator[str]:
        word = command.split()[1]
        runs, key = self._runs[word], self._key_of(word.removeprefix(ASKS))
        wanted = 1 if "Allowed" in verdict else 0
        interrupted = key is not None and FAILED in self._text(key)
        interrupted |= any(word in one.text and UNKNOWN in one.text for one in self._shown)
        if runs != wanted and not (interrupted and runs < wanted):
            yield f"{word} ran {runs} times: {verdict}"

    def _key_of(self, word: str) -> str | None:
        _, id = self._person.written.get(word, (None, None))
        return next((key for message, key, _ in self._replies if message == id), None)

    def _order(self) -> Iterator[str]:
        """What was written first, and came first, is answered first."""
        answered = {word: number for number, one in enumerate(self._shown) for word in words_in("answer", one.text)}
        arrived = {message: number for number, (message,) in enumerate(self._arrived)}
        written = [(word, id) for word, (_, id) in self._person.written.items() if word in answered and id in arrived]
        for (one, first), (other, second) in pairwise(written):
            if arrived[first] < arrived[second] and answered[one] > answered[other]:
                yield f"{other} is answered before {one}"


def seen(shown: Sequence[Shown]) -> str:
    return "\n".join(f"  {one.id}: {one.text[:100]!r} {one.buttons or ''}" for one in shown)
