"""Grants and requirement sets: what is not granted is missing, whoever asks."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from agent_common.protocol import Folders, Net, Program, RequirementSet
from agent_common.protocol.authority import ALL_GRANTED, VARIABLES, expand_variables, requirements_fault
from agent_common.protocol.authority.grants import missing_grant
from agent_common.protocol.permission import ArgPattern

from .written import VALUES, requirements


def both(one: RequirementSet, other: RequirementSet) -> RequirementSet:
    return RequirementSet(
        fs=Folders(read=one.fs.read + other.fs.read, write=one.fs.write + other.fs.write),
        net=Net(hosts=one.net.hosts + other.net.hosts),
        shell=one.shell + other.shell,
        capabilities=one.capabilities + other.capabilities,
    )


# Few wishes are covered by a grant that was drawn beside them.
SPARSE = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@SPARSE
@given(requirements, requirements, requirements)
def test_a_larger_grant_covers_no_less(grant: RequirementSet, more: RequirementSet, wanted: RequirementSet) -> None:
    assume(missing_grant(grant, wanted, VALUES) is None)
    assert missing_grant(both(grant, more), wanted, VALUES) is None


@given(requirements, requirements, requirements)
def test_a_larger_wish_is_granted_no_sooner(
    grant: RequirementSet, wanted: RequirementSet, more: RequirementSet
) -> None:
    if missing_grant(grant, wanted, VALUES) is not None:
        assert missing_grant(grant, both(wanted, more), VALUES) is not None
        assert missing_grant(grant, both(more, wanted), VALUES) is not None


@SPARSE
@given(requirements, requirements, requirements)
def test_who_has_less_covers_no_more(wide: RequirementSet, narrow: RequirementSet, wanted: RequirementSet) -> None:
    """A grant that lies within another one covers nothing that the other does not."""
    assume(missing_grant(wide, narrow, VALUES) is None)
    if missing_grant(narrow, wanted, VALUES) is None:
        assert missing_grant(wide, wanted, VALUES) is None


@given(requirements)
def test_nothing_covers_nothing_but_nothing(wanted: RequirementSet) -> None:
    assert (missing_grant(RequirementSet(), wanted, VALUES) is None) is (wanted == RequirementSet())


@given(requirements)
def test_a_variable_that_stands_for_nothing_grants_nothing(wanted: RequirementSet) -> None:
    folders = [*wanted.fs.read, *wanted.fs.write]
    assume(any("{" in folder for folder in folders))
    for empty in ({}, dict.fromkeys(map(str, VARIABLES), "")):
        assert missing_grant(both(ALL_GRANTED, wanted), wanted, empty) is not None


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_are_filled_in(name: str) -> None:
    assert expand_variables(f"{{{name}}}/x", {name: "/there"}) == "/there/x"
    assert expand_variables(f"{{{name}}}/x", {name: ""}) is None
    assert expand_variables(f"{{{name}}}/x", {}) is None


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("{home}/x", "there is no variable {home}; there are: workspace, ad-hoc, user-data"),
        ("{workspace}/{}", "there is no variable {}"),
        ("{Workspace}", "there is no variable {Workspace}"),
        ("{work{space}}", "there is no variable {space}"),
        ("{workspace", "a brace that is not closed"),
        ("{workspace}}", "a brace that is not closed"),
        ("a/b", "must be absolute or begin with a variable"),
        ("", "must be absolute or begin with a variable"),
    ],
)
def test_a_folder_that_cannot_mean_anything_is_refused(folder: str, says: str) -> None:
    for folders in (Folders(read=[folder]), Folders(write=[folder])):
        assert says in (requirements_fault(RequirementSet(fs=folders)) or "")


def run(*words: str | ArgPattern) -> RequirementSet:
    return RequirementSet.model_validate({"shell": [Program(cmd=words[0], args=list(words[1:]))]})


ANY = ArgPattern(wildcard=True)


@pytest.mark.parametrize(
    ("grant", "wanted", "lacks"),
    [
        (RequirementSet(fs=Folders(read=["/w"])), RequirementSet(fs=Folders(read=["/w/a"])), None),
        (RequirementSet(fs=Folders(read=["/w"])), RequirementSet(fs=Folders(write=["/w/a"])), "write /w/a"),
        (RequirementSet(fs=Folders(read=["/w"])), RequirementSet(fs=Folders(read=["/wide"])), "read /wide"),
        (RequirementSet(fs=Folders(read=["/w"])), RequirementSet(fs=Folders(read=["/w/../etc"])), "read /w/../etc"),
        (RequirementSet(fs=Folders(read=["/"])), RequirementSet(fs=Folders(read=["/etc"])), None),
        (RequirementSet(), RequirementSet(fs=Folders(read=["{user-data}"])), "read {user-data}"),
        (RequirementSet(net=Net(hosts=["*.a.org"])), RequirementSet(net=Net(hosts=["B.A.ORG"])), None),
        (RequirementSet(net=Net(hosts=["*.a.org"])), RequirementSet(net=Net(hosts=["a.org"])), "reach a.org"),
        (RequirementSet(net=Net(hosts=["a.org"])), RequirementSet(net=Net(hosts=["*"])), "reach *"),
        (run("git", "push", ANY), run("git", "push", "x", "y"), None),
        (run("git", "push", ANY), run("git", "pull"), "run git pull"),
        (run("git"), run("git", "push", ANY), "run git push *"),
        (run("git", "push", "x"), run("git", "push"), "run git push"),
        (run("git", ANY), run("git"), None),
        (run(ArgPattern(prefix="gi")), run("git"), None),
        (run(ArgPattern(prefix="git")), run("gi"), "run gi"),
        (RequirementSet(capabilities=["mail.*"]), RequirementSet(capabilities=["mail.send"]), None),
        (RequirementSet(capabilities=["mail.send"]), RequirementSet(capabilities=["mail.*"]), "use mail.*"),
    ],
)
def test_examples(grant: RequirementSet, wanted: RequirementSet, lacks: str | None) -> None:
    assert missing_grant(grant, wanted, VALUES) == lacks
