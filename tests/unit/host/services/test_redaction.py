"""Secrets are taken out of answers in whatever form and in whatever pieces they come, and nothing else is."""

from __future__ import annotations

import base64
import json
import quopri
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_host.services.redaction import MARK, Redactor, Redactors, StreamRedactor, _Form, make_redactor

SECRET = 'p/ss+w"rd=&<7é'
RAW = SECRET.encode()
TEXTS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs"]), min_size=8, max_size=60
)


def redact(data: bytes, secret: str = SECRET) -> bytes:
    return Redactor((secret,)).redact(data)


@pytest.mark.parametrize(
    "form",
    [
        RAW,
        json.dumps(SECRET)[1:-1].encode(),
        json.dumps(SECRET, ensure_ascii=False)[1:-1].encode(),
        json.dumps(json.dumps(SECRET, ensure_ascii=False), ensure_ascii=False)[3:-3].encode(),
        quote(SECRET, safe="").encode(),
        quote(SECRET, safe="/+=&").encode(),
        quote(quote(SECRET, safe="")).encode(),
        quote(SECRET, safe="").lower().encode(),
        SECRET.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").encode(),
        b"".join(b"&#x%x;" % ord(one) for one in SECRET),
        RAW.hex().encode(),
        RAW.hex().upper().encode(),
        base64.b64encode(RAW),
        base64.urlsafe_b64encode(RAW).rstrip(b"="),
        SECRET.upper().encode(),
        SECRET.replace("/", "\\/").encode(),
        *(RAW.hex(separator).encode() for separator in ":-, "),
        RAW.hex("/").replace("/", "\\x").encode(),
        RAW.hex("/").replace("/", ", 0x").encode(),
        SECRET[::-1].encode(),
        b"".join(b"\\%03o" % byte for byte in RAW),
        quopri.encodestring(RAW, quotetabs=True).rstrip(),
        RAW.replace(b"w", b"=\r\nw"),
        b"".join(b"&#%d" % ord(one) if one.isalpha() else one.encode() for one in SECRET),
        b"".join(b"&#0%d;" % ord(one) for one in SECRET),
        SECRET.replace("+", "&plus;").replace("/", "&sol;").replace("=", "&equals;").encode(),
        b"".join(b"%%u%04x" % ord(one) for one in SECRET),
        b"".join(b"\\u{%x}" % ord(one) for one in SECRET),
        b"".join(b"\\U%08x" % ord(one) for one in SECRET),
        json.dumps(list(RAW))[1:-1].encode(),
        json.dumps(list(RAW), separators=(",", ":"))[1:-1].encode(),
        json.dumps({"data": list(RAW)}, indent=2)[18:-6].encode(),
        " ".join(map(str, RAW)).encode(),
        *(SECRET.encode(encoding) for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")),
        json.dumps(list(SECRET), ensure_ascii=False)[2:-2].encode(),
        json.dumps(list(SECRET), ensure_ascii=False, indent=4)[7:-3].encode(),
        RAW.hex("\n", 7).encode(),
        b" ".join(base64.b64encode(RAW)[at : at + 4] for at in range(0, 24, 4)),
    ],
)
def test_every_form_is_found_and_what_is_beside_it_stays(form: bytes) -> None:
    found = redact(b"before " + form + b" after")
    assert found.startswith(b"before " + MARK)
    assert found.endswith(b" after")
    assert len(found) <= len(b"before " + MARK + b" after") + 3  # of Base64 the last character and its padding


@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_base64_of_more_than_the_secret_has_none_of_it(before: int, encode: object) -> None:
    data = b"ab:cdefgh"[:before] + RAW + b"tail"
    found = redact(encode(data))  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
    assert MARK in found
    left = found.replace(MARK, b"")
    assert len(left) <= -(-before * 8 // 6) + 9


def test_other_texts_stay_as_they_are() -> None:
    text = b'a page with p/ss and w"rd and 70 2f, and cGFzcw== and %70%2f, but no secret ' * 20
    assert redact(text) == text
    assert Redactor(()).redact(text) == text


@given(secret=TEXTS, before=st.binary(max_size=40), after=st.binary(max_size=40), cut=st.integers(1, 7))
def test_pieces_hide_nothing(secret: str, before: bytes, after: bytes, cut: int) -> None:
    raw = secret.encode()
    data = before + raw + after + quote(secret).encode() + after + base64.b64encode(b"x" + raw)
    redactor = Redactor((secret,))
    stream = StreamRedactor(Redactors([redactor]))
    pieces = [stream.feed(data[at : at + cut]) for at in range(0, len(data), cut)]
    found = b"".join(pieces) + stream.finish()
    assert found == redactor.redact(data)
    assert raw not in found


SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    lambda one: quote(one, safe=""),
    lambda one: quote(quote(one, safe=""), safe=""),
    lambda one: f"&#{ord(one)}",
    lambda one: f"&#x{ord(one):x};",
    lambda one: f"\\u{ord(one):04x}",
    lambda one: f"\\{one}",
)


@given(
    spelled=st.lists(
        st.tuples(st.sampled_from("abc1;%25&\\#x+/é"), st.sampled_from(SPELLINGS)), min_size=6, max_size=40
    ),
    searched=st.integers(1, 20),
    beside=st.sampled_from(["", ";", "5", "%", "\\", "a"]),
)
@example(spelled=[("a", SPELLINGS[4]), (";", str), ("b", str), ("c", str)], searched=1, beside="")
def test_a_secret_is_found_however_little_of_it_is_searched_for(
    spelled: list[tuple[str, Callable[[str], str]]], searched: int, beside: str
) -> None:
    secret = "".join(character for character, _ in spelled)
    text = (beside + "".join(spell(character) for character, spell in spelled) + beside).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_host.services.redaction._SEARCHED", searched)
        found = redact(text, secret)
    assert found == redact(text, secret)
    assert MARK in found


@pytest.mark.parametrize("encode", [bytes, base64.b64encode, bytes.hex, lambda raw: quote(raw, safe="").encode()])
def test_of_a_long_secret_only_the_whole_is_hidden(encode: Callable[[bytes], bytes | str]) -> None:
    """Tokens of one issuer begin alike."""
    secret = "eyJ" + "Ab1-_." * 200

    def written(text: str) -> bytes:
        form = encode(text.encode())
        return form if isinstance(form, bytes) else form.encode()

    other = secret[:900] + "/" + secret[901:]
    data = b" ".join(written(one) for one in (other, secret[:900], secret, other))
    found = redact(data, secret)
    assert found.count(MARK) == 1
    assert found.startswith(written(other) + b" ")
    assert found.endswith(b" " + written(other))
    stream = StreamRedactor(Redactors([Redactor((secret,))]))
    assert b"".join(stream.feed(data[at : at + 700]) for at in range(0, len(data), 700)) + stream.finish() == found


def test_what_is_nearly_the_secret_costs_no_more_than_another_text() -> None:
    secret = "riGpQ58WAmUdX3a5IDnOdcdbWB"
    redactor = Redactor((secret,))
    other = _seconds(lambda: redactor.redact(b"x" * 20_000))
    assert _seconds(lambda: redactor.redact(secret[:-1].encode() + b"." * 20_000)) < 20 * other + 0.001


def test_the_beginning_of_a_long_secret_is_looked_for_only_where_one_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    may_begin = _Form.may_begin
    monkeypatch.setattr(_Form, "may_begin", lambda form, text, at: looked.append(at) or may_begin(form, text, at))
    stream = StreamRedactor(Redactors([make_redactor("q" * 1200)]))
    assert stream.feed(b"." * 6_000) == b"." * 6_000
    assert not looked
    assert stream.feed(b".q") == b"."
    assert looked == [1]


def _seconds(call: Callable[[], object]) -> float:
    """Return what the call takes of this thread, at the best of some tries."""

    def once() -> float:
        began = time.thread_time()
        call()
        return time.thread_time() - began

    return min(once() for _ in range(3))


def test_only_what_may_be_a_secret_waits() -> None:
    stream = StreamRedactor(Redactors([Redactor(("secret-value-1",)), Redactor(("other-2",))]))
    assert stream.feed(b"data: one\n\n") == b"data: one\n\n"
    assert stream.feed(b"data: secret-va") == b"data: "
    assert stream.feed(b"lid\n") == b"secret-valid\n"
    assert stream.feed(b"se%63ret-value-1.") == MARK + b"."
    assert stream.feed(b"a secret-value-1 and oth") == b"a " + MARK + b" and "
    assert stream.feed(b"er-2.") == MARK + b"."
    assert (stream.feed(b"secret-value-"), stream.finish()) == (b"", b"secret-value-")
