"""What is secret in a URL."""

from __future__ import annotations

import pytest

from agent_common.redaction import url_secrets


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://packages.example/simple", []),
        ("https://reader:sesame@packages.example/simple", ["sesame"]),
        ("https://reader:ses%40me@packages.example:8443/simple", ["ses%40me", "ses@me"]),
        ("https://pypi-AgEIcHlwaS5vcmc@packages.example/simple", ["pypi-AgEIcHlwaS5vcmc"]),
        ("https://pypi-AgEIcHlwaS5vcmc:@packages.example/simple", ["pypi-AgEIcHlwaS5vcmc"]),
        ("https://packages.example/simple/@scope?x=a@b", []),
        ("", []),
    ],
)
def test_the_password_of_a_url_is_found(url: str, secrets: list[str]) -> None:
    assert url_secrets(url) == secrets
