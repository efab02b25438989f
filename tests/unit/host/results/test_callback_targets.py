"""Which URLs the host may call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.errors import ToolFailure
from agent_common.net import AddressPolicy
from agent_host.callback_targets import CallbackTargets
from agent_host.errors import InvalidRequest

NAMED = CallbackTargets.from_names(["Receiver.corp", "10.0.0.7:8080", "[::1]:9000"])


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://example.org/x?y=1", True),
        ("http://example.org/", False),
        ("http://receiver.corp/", True),
        ("http://receiver.corp:9999/", True),
        ("https://receiver.corp/", True),
        ("http://other.receiver.corp/", False),
        ("http://10.0.0.7:8080/hook", True),
        ("http://10.0.0.7:8081/hook", False),
        ("https://10.0.0.7/hook", False),
        ("http://[::1]:9000/", True),
        ("http://[::1]/", False),
    ],
)
def test_a_named_host_may_be_called_over_http_and_others_over_https(url: str, allowed: bool) -> None:
    if allowed:
        assert (NAMED.rules_for(NAMED.check(url)) != AddressPolicy()) == ("example.org" not in url)
    else:
        with pytest.raises(ToolFailure):
            NAMED.check(url)


@pytest.mark.parametrize("name", ["http://x", "x/y", "a b", "ann@x", "x:99999", "::1", ""])
def test_a_setting_that_is_no_host_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"not a host|more than a host"):
        CallbackTargets.from_names([name])


def test_a_request_learns_which_field_is_wrong() -> None:
    with pytest.raises(InvalidRequest) as caught:
        CallbackTargets().require("result_url", "http://example.org/")
    assert caught.value.faults[0][0] == "result_url"
    assert CallbackTargets().require("result_url", "https://EXAMPLE.org:443/ä") == "https://example.org/%C3%A4"


@given(st.text(max_size=60) | st.builds("https://{}/{}".format, st.text(max_size=30), st.text(max_size=20)))
def test_whatever_is_accepted_is_a_public_https_url_in_ascii(text: str) -> None:
    try:
        url = CallbackTargets().check(text)
    except ToolFailure:
        return
    assert url.scheme == "https"
    assert str(url).isascii()
    assert "@" not in url.authority
    assert CallbackTargets().check(str(url)) == url
