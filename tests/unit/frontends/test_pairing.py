"""Pairing against a model of it: a code is one stranger's, is used once, expires, and cannot be guessed."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from frontends.people import (
    CODE_LIFETIME_MS,
    PairingError,
    Person,
    WrongCode,
    allow_in,
    code_in,
    confirm,
    confirmed_in,
    end_pairing_in,
    identities_in,
    note_private_chat_in,
    people_in,
    person_in,
    private_chats_in,
    unpair_in,
)
from frontends.people.codes import ALPHABET, LENGTH, new_code, normalized
from frontends.people.pairing import MAX_CODES, MAX_WRONG_CODES
from frontends.platform import Chat, Sender, Update
from frontends.store import add_in, first_waiting_in
from frontends.store.database import connect

BOTS, IDENTITIES = ("home", "work"), ("telegram:1", "telegram:2", "discord:3")
WRONG = "22222222"


class Pairing(RuleBasedStateMachine):
    """An operator and strangers; people may be informed late that they are paired."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.connection = connect(Path(self.folder.name) / "bots.db")
        self.now = 1_000_000
        self.codes: dict[tuple[str, str], tuple[str, int]] = {}
        """Those that are valid, with the time at which they expire."""
        self.used = [WRONG]
        self.admitted: set[tuple[str, str]] = set()
        self.person_of: dict[str, str] = {}
        self.wrong: list[int] = []

    def teardown(self) -> None:
        self.connection.close()
        self.folder.cleanup()

    @rule(bot=st.sampled_from(BOTS), identity=st.sampled_from(IDENTITIES), restarted=st.booleans())
    def ask(self, bot: str, identity: str, restarted: bool) -> None:
        if (bot, identity) in self.admitted:
            return
        before = self.valid(bot, identity)
        known = None if restarted else before
        code = code_in(self.connection, bot, identity, chat=f"chat of {identity}", known=known, now=self.now)
        assert code is not None
        if known is not None:
            assert code == known
            return
        if before is not None:
            self.used.append(before)
        self.codes[bot, identity] = code, self.now + CODE_LIFETIME_MS

    def valid(self, bot: str, identity: str) -> str | None:
        code, expires = self.codes.get((bot, identity), (None, 0))
        return code if expires > self.now else None

    @rule(
        bot=st.sampled_from(BOTS), identity=st.sampled_from(IDENTITIES), person=st.none() | st.sampled_from(IDENTITIES)
    )
    def confirm(self, bot: str, identity: str, person: str | None) -> None:
        code = self.valid(bot, identity)
        if code is None:
            return
        own, wanted = self.person_of.get(identity), None if person is None else self.person_of.get(person)
        typed = f" {code[:4].lower()}-{code[4:]}"
        if self.is_locked() or (person is not None and (wanted is None or own not in (None, wanted))):
            with pytest.raises(PairingError):
                confirm(self.connection, typed, person, now=self.now)
            return
        paired = confirm(self.connection, typed, person, now=self.now)
        principal = own or wanted or identity
        assert (paired.bot, paired.identity, paired.principal) == (bot, identity, principal)
        assert paired in confirmed_in(self.connection)
        del self.codes[bot, identity]
        self.used.append(code)
        self.admitted.add((bot, identity))
        self.person_of[identity] = principal

    @rule()
    def announce(self) -> None:
        for paired in confirmed_in(self.connection):
            end_pairing_in(self.connection, paired.bot, paired.identity)

    @rule(data=st.data())
    def guess(self, data: st.DataObject) -> None:
        code = data.draw(st.sampled_from(self.used))
        with pytest.raises(PairingError) as caught:
            confirm(self.connection, code, None, now=self.now)
        assert isinstance(caught.value, WrongCode) != self.is_locked()
        if not self.is_locked():
            self.wrong.append(self.now)

    def is_locked(self) -> bool:
        return sum(at > self.now - CODE_LIFETIME_MS for at in self.wrong) >= MAX_WRONG_CODES

    @rule(identity=st.sampled_from(IDENTITIES))
    def unpair(self, identity: str) -> None:
        gone = {one for one, person in self.person_of.items() if person == identity}
        if not gone and identity in self.person_of:
            gone = {identity}
        if not gone:
            with pytest.raises(PairingError, match="there is no person"):
                unpair_in(self.connection, identity, now=self.now)
            return
        assert unpair_in(self.connection, identity, now=self.now) == gone
        self.admitted = {(bot, one) for bot, one in self.admitted if one not in gone}
        self.person_of = {one: person for one, person in self.person_of.items() if one not in gone}
        self.used += [code for (_, one), (code, _) in self.codes.items() if one in gone]
        self.codes = {key: code for key, code in self.codes.items() if key[1] not in gone}

    @rule(minutes=st.sampled_from([1, 30, 61]))
    def wait(self, minutes: int) -> None:
        self.now += minutes * 60_000
        self.used += [code for code, expires in self.codes.values() if expires <= self.now]
        self.codes = {key: (code, expires) for key, (code, expires) in self.codes.items() if expires > self.now}

    @rule()
    def look(self) -> None:
        for bot in BOTS:
            for identity in IDENTITIES:
                person = person_in(self.connection, bot, identity)
                if (bot, identity) not in self.admitted:
                    assert person is None
                    continue
                principal = self.person_of[identity]
                linked = {one for one, other in self.person_of.items() if other == principal}
                assert person == Person(principal, frozenset(linked))


TestPairing = Pairing.TestCase
# An example is a database with its changes, a fifth of a second: eight in the profile `dev`, 66 in `ci`.
TestPairing.settings = settings(max_examples=settings().max_examples // 3)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(tmp_path / "bots.db")
    yield connection
    connection.close()


@given(st.text(st.characters(exclude_categories=()), max_size=12))
def test_what_is_typed_is_a_code_or_none(typed: str) -> None:
    code = normalized(typed)
    assert code is None or (len(code) == LENGTH and set(code) <= set(ALPHABET))


def test_a_code_is_read_however_it_is_written() -> None:
    code = new_code()
    assert len(code) == LENGTH == 8
    for typed in (code, code.lower(), f" {code[:4]} {code[4:]}\n", f"{code[:4]}-{code[4:]}"):
        assert normalized(typed) == code
    assert normalized(f"{code[:7]}0") is None


def test_the_database_holds_no_code(connection: sqlite3.Connection, tmp_path: Path) -> None:
    code = code_in(connection, "home", "telegram:1", chat="1", known=None, now=1)
    assert code is not None
    for file in tmp_path.iterdir():
        assert code.encode() not in file.read_bytes()


def test_codes_are_bounded_in_all(connection: sqlite3.Connection) -> None:
    rows = [("home", f"telegram:{id}", "1", bytes([id]), 10**9) for id in range(MAX_CODES - 1)]
    connection.executemany("INSERT INTO pairings VALUES (?, ?, ?, ?, ?, NULL)", rows)
    assert code_in(connection, "home", "telegram:1001", chat="1", known=None, now=1) is not None
    assert code_in(connection, "home", "telegram:1002", chat="1", known=None, now=1) is None
    assert code_in(connection, "home", "telegram:1001", chat="1", known=None, now=1) is not None, "in place of its own"
    assert code_in(connection, "home", "telegram:1002", chat="1", known=None, now=10**9) is not None, "they expired"


def test_a_code_is_used_once(connection: sqlite3.Connection) -> None:
    code = code_in(connection, "home", "telegram:1", chat="1", known=None, now=1)
    assert code is not None
    confirm(connection, code, None, now=1)
    with pytest.raises(WrongCode):
        confirm(connection, code, None, now=1)


def test_a_code_of_one_bot_opens_no_other(connection: sqlite3.Connection) -> None:
    pair(connection, "home", "telegram:1")
    assert person_in(connection, "home", "telegram:1") is not None
    assert person_in(connection, "work", "telegram:1") is None


def pair(connection: sqlite3.Connection, bot: str, identity: str, person: str | None = None) -> None:
    code = code_in(connection, bot, identity, chat=f"chat of {identity}", known=None, now=1)
    assert code is not None
    confirm(connection, code, person, now=1)
    end_pairing_in(connection, bot, identity)


def test_an_identity_of_another_person_is_not_taken_from_them(connection: sqlite3.Connection) -> None:
    pair(connection, "home", "telegram:1")
    pair(connection, "home", "discord:3")
    code = code_in(connection, "work", "discord:3", chat="1", known=None, now=1)
    assert code is not None
    with pytest.raises(PairingError, match=r"discord:3 belongs to discord:3; `agent bots unpair discord:3` first"):
        confirm(connection, code, "telegram:1", now=1)
    unpair_in(connection, "discord:3", now=1)
    pair(connection, "work", "discord:3", "telegram:1")
    assert identities_in(connection, "telegram:1") == {"telegram:1", "discord:3"}
    assert private_chats_in(connection, "work", "telegram:1") == ["chat of discord:3"]


def test_what_waits_of_a_person_who_is_unpaired_is_dropped(connection: sqlite3.Connection) -> None:
    pair(connection, "home", "telegram:1")
    for sender in ("1", "2"):
        update = Update(sender, "message", Chat("5", False), Sender(sender, "x"), sender, int(sender))
        add_in(connection, "home", update, sender=f"telegram:{sender}", stranger=False, now=1)
    unpair_in(connection, "telegram:1", now=2)
    left = first_waiting_in(connection, "home", "5")
    assert left is not None
    assert left.sender == "telegram:2"


def test_whom_the_settings_name_is_admitted_until_they_no_longer_do(connection: sqlite3.Connection) -> None:
    pair(connection, "home", "telegram:2")
    allow_in(connection, {"home": ["telegram:1", "telegram:2"], "work": ["telegram:1"]})
    note_private_chat_in(connection, "home", "telegram:1", "77")
    allow_in(connection, {"home": ["telegram:1"]})
    assert private_chats_in(connection, "home", "telegram:1") == ["77"]
    assert person_in(connection, "home", "telegram:1") == Person("telegram:1", frozenset({"telegram:1"}))
    assert person_in(connection, "work", "telegram:1") is None
    listed = [(one.principal, one.bots, one.allowed) for one in people_in(connection)]
    assert listed == [("telegram:1", ("home",), {"telegram:1"}), ("telegram:2", ("home",), set())]
    allow_in(connection, {})
    assert [one.principal for one in people_in(connection)] == ["telegram:2"], (
        "a code is not taken back by the settings"
    )
