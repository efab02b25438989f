from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.connectors.tools.names import name_prefixes, rule_name, tool_name

SERVERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", fullmatch=True)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("docs", "search", "docs_search"),
        ("git-hub", "list_issues", "git-hub_list_issues"),
        ("docs", "a.b", r"docs_a_b_[0-9a-f]{8}"),
        ("docs", "Größe", r"docs_Gr__e_[0-9a-f]{8}"),
        ("docs", "x" * 100, r"docs_x{50}_[0-9a-f]{8}"),
        ("web", "search", r"web_search_[0-9a-f]{8}"),
        ("spawn", "agent", r"spawn_agent_[0-9a-f]{8}"),
        ("git", "hub_search", r"git_[0-9a-f]{8}_hub_search"),
        ("git", "hub.search", r"git_[0-9a-f]{8}_hub_search"),
        ("git_hub", "search", "git_hub_search"),
        ("21st", "magic", r"mcp_21st_magic_[0-9a-f]{8}"),
    ],
)
def test_names(server: str, tool: str, name: str) -> None:
    assert re.fullmatch(name, tool_name(server, tool, ["git", "git_hub", "docs", "web"]))


@given(st.sets(st.tuples(SERVERS, st.text(min_size=1, max_size=128)), max_size=20), st.randoms())
def test_they_fit_and_differ_and_do_not_hang_on_the_order(tools: set[tuple[str, str]], random: object) -> None:
    servers = {server for server, _ in tools}
    named = {one: tool_name(*one, servers) for one in tools}
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name) for name in named.values())
    assert len(set(named.values())) == len(tools)
    for one, name in named.items():
        assert name.startswith(name_prefixes(one[0])[0])
        longer = [other for other in servers if len(other) > len(one[0])]
        assert not any(name.startswith(name_prefixes(other)[0]) for other in longer), "a rule for all of its tools"
        assert tool_name(*one, sorted(servers, reverse=True)) == name
        assert rule_name(*one).startswith(name_prefixes(one[0])[1])
