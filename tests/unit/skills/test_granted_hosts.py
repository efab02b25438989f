"""What a grant of a host means: the web's ports, or the one that is named."""

from __future__ import annotations

import pytest

from agent_runtime.skills.sources.granted_hosts import GrantedHosts, describe_grant


@pytest.mark.parametrize(
    ("grant", "reached", "refused"),
    [
        ("example.org", [("example.org", 80), ("example.org", 443)], [("example.org", 8080), ("a.example.org", 443)]),
        ("example.org:8443", [("example.org", 8443)], [("example.org", 443), ("example.org", 80)]),
        ("*.example.org", [("a.example.org", 443)], [("example.org", 443), ("a.example.org", 22)]),
        ("*.example.org:22", [("a.example.org", 22)], [("a.example.org", 443)]),
        ("*", [("anything.example", 80)], [("anything.example", 8420)]),
        ("*:8420", [("anything.example", 8420)], [("anything.example", 443)]),
        ("10.0.0.7:5432", [("10.0.0.7", 5432)], [("10.0.0.7", 80)]),
        ("::1", [("::1", 80)], [("::1", 8400)]),
        ("[::1]", [("::1", 443)], [("::1", 8400)]),
        ("[::1]:8400", [("::1", 8400)], [("::1", 80)]),
    ],
)
def test_a_grant_means_its_port_or_those_of_the_web(
    grant: str, reached: list[tuple[str, int]], refused: list[tuple[str, int]]
) -> None:
    hosts = GrantedHosts.from_grants([grant])
    assert [place for place in reached + refused if hosts.match(*place)] == reached


def test_only_a_host_that_is_named_on_that_port_may_have_any_address() -> None:
    hosts = GrantedHosts.from_grants(["db.example:5432", "*:5433", "db.example"])
    assert hosts.is_named("db.example", 5432)
    assert hosts.is_named("db.example", 443)
    assert hosts.match("db.example", 5433)
    assert not hosts.is_named("db.example", 5433)


@pytest.mark.parametrize(
    "grant", ["", ":80", "example.org:", "example.org:0", "example.org:65536", "a:b:c", "[::1", "http://a"]
)
def test_what_names_no_host_or_no_port_is_refused(grant: str) -> None:
    with pytest.raises(ValueError, match=r"has no port from 1 to 65535|is not a host"):
        GrantedHosts.from_grants([grant])


def test_a_person_reads_which_ports_are_granted() -> None:
    assert describe_grant("example.org") == "example.org (ports 80 and 443)"
    assert describe_grant("example.org:8443") == "example.org:8443"
