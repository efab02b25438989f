"""The runs that the tests share, each with the cases that are asked for and no others."""

from __future__ import annotations

import pytest

from .arena import unavailable
from .case import Case
from .cases import CASES


@pytest.fixture(autouse=True, scope="session")
def _arena() -> None:
    if unavailable():
        pytest.skip(unavailable())


def chosen(request: pytest.FixtureRequest, test: str) -> tuple[str, ...]:
    """Names of the cases that a parametrised test was selected for."""
    items = [item for item in request.session.items if getattr(item, "originalname", "") == test]
    cases: list[Case] = [item.callspec.params["case"] for item in items]  # type: ignore[attr-defined]
    return () if len(cases) == len(CASES) else tuple(case.name for case in cases)
