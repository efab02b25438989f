from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.tools.catalog.tool_search_index import ToolIndex, tokenize

TOOLS = [
    ("docs_search", "Searches the documentation of the product."),
    ("github_create_issue", "Creates an issue in a repository."),
    ("github_list_issues", "Lists the issues of a repository, newest first."),
    ("mail_send", "Sends a mail to somebody."),
    ("weather_getForecast", "What the weather will be like."),
    ("kalender_eintragen", "Trägt einen Termin in den Kalender ein."),
    ("jp_tenki", "東京の天気予報を調べる"),
]
WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
TEXT = st.lists(WORD, max_size=8).map(" ".join)
PAIRS = st.lists(
    st.tuples(st.from_regex(r"[a-z]{1,6}_[a-z]{1,6}", fullmatch=True), TEXT), max_size=30, unique_by=lambda one: one[0]
)


def names(query: str, most: int = 10) -> list[str]:
    return [name for name, _ in ToolIndex(TOOLS).search(query, most)]


def test_the_best_comes_first() -> None:
    assert names("create issue")[0] == "github_create_issue"
    assert names("list all open issues in a repo")[0] == "github_list_issues"
    assert names("search docs")[0] == "docs_search"
    assert names("forecast")[0] == "weather_getForecast"
    assert names("Termine")[0] == "kalender_eintragen"
    assert names("天気")[0] == "jp_tenki"
    assert names("quantum") == []
    assert names("") == []
    assert len(names("the of a in", 2)) == 2


def test_words() -> None:
    assert tokenize("readFile read_file HTTPServer issues") == ["read", "fil", "read", "fil", "http", "server", "issu"]


@given(PAIRS, TEXT, st.integers(0, 12))
def test_what_is_found_is_there_and_shares_a_word(tools: list[tuple[str, str]], query: str, most: int) -> None:
    found = ToolIndex(tools).search(query, most)
    assert len(found) <= most
    assert len({name for name, _ in found}) == len(found)
    for name, about in found:
        assert (name, about) in tools
        assert set(tokenize(query)) & set(tokenize(f"{name} {about}"))
    assert found == ToolIndex(tools[::-1]).search(query, most)


@given(PAIRS, st.data())
def test_a_tool_is_found_by_its_name(tools: list[tuple[str, str]], data: st.DataObject) -> None:
    if tools:
        name, _ = data.draw(st.sampled_from(tools))
        assert name in [one for one, _ in ToolIndex(tools).search(name, len(tools))]


@given(PAIRS, TEXT)
def test_fewer_are_the_beginning_of_more(tools: list[tuple[str, str]], query: str) -> None:
    index = ToolIndex(tools)
    assert index.search(query, 3) == index.search(query, 10)[:3]
