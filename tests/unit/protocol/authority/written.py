"""What people may write: patterns, rules, grants; and a matcher that is as plain as the definition of a pattern."""

from __future__ import annotations

import re
from itertools import product

from hypothesis import strategies as st

from agent_common.protocol import Folders, Net, Program, RequirementSet, Rule
from agent_common.protocol.authority import Access, Layer
from agent_common.protocol.permission import ArgPattern

TEXTS = tuple("".join(signs) for length in range(5) for signs in product("ab ", repeat=length))

texts = st.text("ab ", max_size=8)
patterns = st.text("ab *?", min_size=1, max_size=6)
beginnings = st.builds("{}{}".format, st.text("ab ", max_size=2), st.sampled_from(("", "*", " *"))).filter(bool)
"""Patterns of which it is easy to tell which one covers the other."""
permissions = st.sampled_from(("bash", "read", "shell.run", "fs.read", "fs.*", "skill:x", "skill:*", "b*", "*", "**"))


def rules(pattern: st.SearchStrategy[str] = patterns) -> st.SearchStrategy[list[Rule]]:
    actions, sources = st.sampled_from(("allow", "ask", "deny")), st.sampled_from(("manifest", "project", "session"))
    return st.lists(
        st.builds(Rule, permission=permissions, pattern=pattern, action=actions, source=sources), max_size=6
    )


names = st.lists(st.sampled_from(("skill:x", "skill:y")), max_size=1).map(tuple)
capabilities = st.lists(st.sampled_from(("shell.run", "fs.read", "fs.write", "net.fetch")), max_size=2).map(tuple)
accesses = st.builds(
    Access,
    tool=st.sampled_from(("bash", "read", "x")),
    names=names,
    capabilities=capabilities,
    implied=capabilities,
    subjects=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3).map(tuple),
    aliases=st.lists(st.lists(st.sampled_from(TEXTS), max_size=2).map(tuple), max_size=2).map(tuple),
    starts=st.dictionaries(st.sampled_from(TEXTS), st.sampled_from(TEXTS), max_size=2),
    opaque=st.booleans(),
    anything=st.booleans(),
)

VALUES = {"workspace": "/w", "ad-hoc": "/s"}
folders = st.lists(
    st.builds("{}{}".format, st.sampled_from(("{workspace}", "{ad-hoc}", "{user-data}", "/w", "/")), st.sampled_from(
        ("", "/a", "/a/b", "/ab", "/a/../b")
    )),
    max_size=2,
)  # fmt: skip
words = st.one_of(
    st.sampled_from(("git", "gi", "push")),
    st.builds(ArgPattern, prefix=st.sampled_from(("", "g", "git"))),
    st.just(ArgPattern(wildcard=True)),
)
programs = st.lists(st.builds(Program, cmd=words, args=st.lists(words, max_size=3)), max_size=2)
requirements = st.builds(
    RequirementSet,
    fs=st.builds(Folders, read=folders, write=folders),
    net=st.builds(Net, hosts=st.lists(st.sampled_from(("*", "*.a.org", "a.org", "B.A.org", "?.a.org")), max_size=2)),
    shell=programs,
    capabilities=st.lists(st.sampled_from(("*", "mail", "mail.send", "mail.*")), max_size=2),
)
layers = st.builds(
    Layer,
    grant=requirements,
    tools=st.lists(st.sampled_from(("*", "bash", "b*", "skill:*", "read")), max_size=2).map(tuple),
    rules=st.none() | rules().map(tuple),
)


def fits(pattern: str, text: str) -> bool:
    """The definition of a pattern, letter by letter; slow."""
    plain = re.sub(r"\*+", "*", pattern)
    return _fits(plain, text) or (plain.endswith(" *") and _fits(plain[:-2], text))


def _fits(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return _fits(pattern[1:], text) or (bool(text) and _fits(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and _fits(pattern[1:], text[1:])
