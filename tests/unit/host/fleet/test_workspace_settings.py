"""What a caller may set for a workspace, and how it is told what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from agent_host.errors import InvalidRequest
from agent_host.fleet.drivers.container import guest_environment
from agent_host.fleet.drivers.external import ExternalDriver
from agent_host.fleet.drivers.process import ProcessDriver
from agent_host.fleet.workspace_settings import ALLOWED, check_passed, check_settings, merge_settings
from agent_runtime.settings import LOADER, Settings

from .test_machine import LAUNCH


def test_values_are_given_as_text_or_as_json() -> None:
    given: dict[str, JsonValue] = {
        "AGENT_ROLE": "editor",
        "AGENT_MAX_ROUNDS": 5,
        "AGENT_TURN_TIMEOUT": 1.5,
        "AGENT_COMPACTION": {"tail_turns": 3},
        "AGENT_MODEL": None,
    }
    assert check_settings(given) == {
        "AGENT_ROLE": "editor",
        "AGENT_MAX_ROUNDS": "5",
        "AGENT_TURN_TIMEOUT": "1.5",
        "AGENT_COMPACTION": '{"tail_turns": 3}',
        "AGENT_MODEL": None,
    }
    assert merge_settings({"AGENT_MODEL": "big", "AGENT_ROLE": "x"}, check_settings(given)).keys() == given.keys() - {
        "AGENT_MODEL"
    }


@pytest.mark.parametrize("field", sorted(set(Settings.model_fields) - set(ALLOWED.values())))
def test_what_is_the_operators_is_refused_by_name(field: str) -> None:
    name = LOADER.env_name(field)
    with pytest.raises(InvalidRequest, match=f"settings.{name}: a caller may not set this; allowed are AGENT_ROLE, "):
        check_settings({name: "1"})


@pytest.mark.parametrize(
    "name", ["PATH", "LD_PRELOAD", "MESH_ADMIN_TOKEN", "AGENT_TOKEN_FILE", "agent_role", "AGENT_ROLE=x", "", "AGENT_\0"]
)
def test_no_other_variable_is_taken(name: str) -> None:
    with pytest.raises(InvalidRequest, match="a caller may not set this"):
        check_settings({name: "x"})


@pytest.mark.parametrize(
    ("name", "value", "place", "why"),
    [
        ("AGENT_MAX_ROUNDS", 0, "", "greater than or equal to 1"),
        ("AGENT_MAX_ROUNDS", "many", "", "valid integer"),
        ("AGENT_TURN_TIMEOUT", "inf", "", "finite"),
        ("AGENT_ROLE", "", "", "is empty"),
        ("AGENT_ROLE", "a\nb", "", "on one line"),
        ("AGENT_ROLE", "a\0b", "", "on one line"),
        ("AGENT_ROLE", "x" * 201, "", "at most 200"),
        ("AGENT_MODEL", "x" * 4001, "", "at most 4000"),
        ("AGENT_MODEL", ["x"], "", "must be text, a number"),
        ("AGENT_COMPACTION", "[" * 3900, "", "too many levels"),
        ("AGENT_COMPACTION", "{", "", "Expecting"),
        ("AGENT_COMPACTION", {"tail_turns": 0}, ".tail_turns", "greater than or equal to 1"),
        ("AGENT_COMPACTION", {"nope": 1}, ".nope", "not permitted"),
        ("AGENT_CONFINEMENT", "off", "", "may only be 'required'"),
        ("AGENT_CONFINEMENT", "auto", "", "may only be 'required'"),
        ("AGENT_SKILL_DEPENDENCIES", "all", "", "may only be 'off'"),
    ],
)
def test_a_wrong_value_is_told_when_it_is_given(name: str, value: JsonValue, place: str, why: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_settings({name: value})
    [(field, message)] = caught.value.faults
    assert field == f"settings.{name}{place}"
    assert why in message


def test_a_container_is_given_them_in_the_place_of_the_operators() -> None:
    launch = type(LAUNCH)("w", "", LAUNCH.data_dir, "t", "http://h", "m", settings={"AGENT_MODEL": "chosen"})
    given = guest_environment(launch, {"AGENT_MODEL": "usual", "AGENT_ROLE": "editor"})
    assert (given["AGENT_MODEL"], given["AGENT_ROLE"], given["AGENT_ID"]) == ("chosen", "editor", "w")


def test_a_folder_of_the_user_must_be_apart_from_the_hosts_data(tmp_path: Path) -> None:
    (tmp_path / "host" / "tokens").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    driver, host = ProcessDriver(1, 1), tmp_path / "host"
    check_passed("process", driver, {"AGENT_WORKSPACE_DIR": str(tmp_path / "project")}, host)
    for folder in (host, host / "tokens", tmp_path, tmp_path / "missing", Path("/etc")):
        with pytest.raises(InvalidRequest, match=r"settings\.AGENT_WORKSPACE_DIR"):
            check_passed("process", driver, {"AGENT_WORKSPACE_DIR": str(folder)}, host)


def test_only_a_process_can_work_in_a_folder_of_this_machine(tmp_path: Path) -> None:
    class Machine(ExternalDriver):
        passes_settings = True

    (tmp_path / "project").mkdir()
    with pytest.raises(InvalidRequest, match="shows its agent no folder of this machine"):
        check_passed("qemu", Machine(), {"AGENT_WORKSPACE_DIR": str(tmp_path / "project")}, tmp_path / "host")
