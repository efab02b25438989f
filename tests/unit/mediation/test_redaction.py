from __future__ import annotations

import json

import pytest

from agent_common.protocol.work import LifecycleSignal, Nack, Progress, WorkResult
from agent_common.redaction import Redactor
from agent_runtime.mediation.redaction import redact_frame

SECRETS = ("sesame-42", 'with"quote\\', "mit Umläut", "abc")


def result(content: str) -> WorkResult:
    fields = {"request_id": "sesame-42", "status": "completed", "audit_ref": "a"}
    return WorkResult.model_validate({**fields, "completed_at": "2026-11-22T02:00:00Z", "content": content})


@pytest.mark.parametrize("secret", SECRETS[:3])
@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_is_taken_out_at_every_depth_of_json(secret: str, levels: int, ascii_only: bool) -> None:
    text = secret
    for _ in range(levels):
        text = json.dumps({"told": text}, ensure_ascii=ascii_only)
    clean = redact_frame(result(text), Redactor(SECRETS)).content or ""
    for _ in range(levels):
        clean = json.loads(clean)["told"]
    assert clean == "[redacted]"


def test_names_and_words_that_are_no_secrets_stay() -> None:
    redactor = Redactor(SECRETS)
    assert redact_frame(result("abcdef"), redactor).content == "abcdef", "too short for a secret"
    assert redact_frame(result("x"), redactor).request_id == "sesame-42", "the host's own"
    assert redact_frame(result("sesame-42"), Redactor()).content == "sesame-42"


def test_all_that_is_said_in_words_is_looked_at() -> None:
    redactor, said = Redactor(SECRETS), "it is sesame-42"
    signal = {"signal": "ready", "agent_id": "a", "observed_at": "2026-11-22T02:00:00Z"}
    told = redact_frame(LifecycleSignal.model_validate({**signal, "detail": said, "error": said}), redactor)
    assert (told.detail, told.error) == ("it is [redacted]", "it is [redacted]")
    assert redact_frame(Nack(code="x", detail=said), redactor).detail == "it is [redacted]"
    assert redact_frame(Progress(request_id="r", seq=1, kind="text", text=said), redactor).text == "it is [redacted]"


def test_an_end_that_could_be_the_beginning_of_a_secret_waits() -> None:
    redactor = Redactor(SECRETS)
    assert redactor.split_releasable("it is ses") == ("it is ", "ses")
    assert redactor.split_releasable("sesame-42") == ("sesame-42", "")
    assert redactor.split_releasable("nothing at all") == ("nothing at all", "")
