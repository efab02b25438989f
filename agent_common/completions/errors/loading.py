"""Whether an error says that the model is not there yet: its server loads it, or starts for it, which takes minutes."""

from __future__ import annotations

import re

from .bodies import ErrorReport

_LOADING = re.compile(
    r"\bload(?:ing)?\b.{0,20}\bmodel|model.{0,160}\b(?:is |being |still )*(?:loading|initiali[sz]ing|downloading)"
    r"|model.{0,160}\bbeing (?:down)?loaded|warming up|cold.?start"
    r"|(?:model|server|endpoint).{0,40}\b(?:is (?:starting|scaling)|not (?:yet )?ready"
    r"|still (?:starting|building|deploying))"
    r"|\bmodel.{0,20}\b(?:to load|not (?:yet )?loaded)\b|\bscal(?:ing|ed) (?:to|from) zero"
    r"|(?:model|server|endpoint|deployment).{0,40}\bscaling up",
    re.IGNORECASE,
)
_UNLOADED = re.compile(r"\bmodel (?:\S{1,100} )?(?:is |was |has been |got )?unloaded\b", re.IGNORECASE)
"""Of LM Studio, which has made room meanwhile and loads it again with the next request."""
_PLAINLY = re.compile(
    r"\bmodel\b.{0,160}\b(?:(?:is|still|currently) loading|being loaded)\b"
    r"|\bmodel\b.{0,60}\b(?:not yet (?:loaded|ready)|not (?:loaded|ready) yet)\b",
    re.IGNORECASE,
)
"""Words that count with the status of a faulty request too: there a person may have to load the model."""


def tells_of_loading(report: ErrorReport) -> bool:
    """Whether an error that may pass is about a model that is being loaded."""
    words = " ".join((report.message, *(code.replace("_", " ") for code in sorted(report.codes))))
    return _LOADING.search(words) is not None or _UNLOADED.search(words) is not None


def plainly_tells_of_loading(words: str) -> bool:
    """Whether the refusal of a request only says that the model is not there yet."""
    return _PLAINLY.search(words) is not None or _UNLOADED.search(words) is not None
