"""The body of a provider's answer, in whatever pieces it comes."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import pytest

from agent_host.proxy.calls.answer_body import AnswerBody
from agent_host.proxy.providers import ProviderAnswer

EVENTS = b'data: {"choices": []}\n\ndata: [DONE]\n\n'
FAILED = b'error: {"code": 400, "message": "too long"}\n\n'
DOCUMENT = b'{"choices": []}'


async def one_by_one(data: bytes) -> AsyncIterator[bytes]:
    yield b""
    for at in range(len(data)):
        yield data[at : at + 1]
        yield b""


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize(("content", "is_document"), [(EVENTS, False), (FAILED, False), (DOCUMENT, True)])
async def test_a_piece_that_holds_nothing_does_not_end_it(coding: str, content: bytes, is_document: bool) -> None:
    sent = gzip.compress(content) if coding else content
    body = AnswerBody(ProviderAnswer(200, {"content-encoding": coding}, one_by_one(sent)))
    assert await body.is_document() is is_document
    read = b""
    while data := await body.read():
        read += data
    assert read == content
