"""A plugin that cannot be read, however odd, fails by itself: others load, and so does its own last good version."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.skills.sources.grants import Grant, Grants
from agent_runtime.skills.sources.source import PluginSource

from .conftest import House
from .school import School

GOOD = "@skill(name='good', description='d')\ndef good():\n    return 'here'\n"
BLOCK = "# /// script\n# {}\n# ///\n"
LONG = "1" * 5000
ODD = {
    "number": BLOCK.format(f"x = {LONG}"),
    "requirement": BLOCK.format(f"dependencies = [0x{'f' * 5000}]"),
    "table": BLOCK.format(f"dependencies = [{{x = 0x{'f' * 5000}}}]"),
    "declared": f"""
import sys
sys.set_int_max_str_digits(0)
@skill(name="declared", description="d", parameters={{"x": {{"type": "integer", "maximum": {"0x" + "f" * 5000}}}}})
def declared(x): return x
""",
}


FAULTS = {
    "number": "number.py: the block `# /// script` is not TOML: Exceeds the limit",
    "requirement": "requirement.py: dependencies: must be texts, and one is of the type int",
    "table": "table.py: dependencies: must be texts, and one is of the type dict",
    "declared": "declared.py: the skill's process broke the protocol: not a message",
}


async def test_odd_plugins_do_not_keep_others_from_loading(school: School) -> None:
    host = await school.teach(load_seconds=15, good=GOOD, **ODD)
    assert await school.value("good") == "here"
    states = {one.file.removesuffix(".py"): one for one in host.states()}
    assert {name: states[name].state for name in ODD} == dict.fromkeys(ODD, "failed")
    for name, fault in FAULTS.items():
        assert fault in (states[name].error or "")


@pytest.mark.parametrize("name", ["number", "requirement"])
async def test_the_last_good_version_of_an_odd_plugin_comes_back_at_a_start(school: School, name: str) -> None:
    await school.teach(good=GOOD)
    host = await school.teach(good=ODD[name] + GOOD.replace("here", "there"))
    assert await school.value("good") == "here"
    [state] = host.states()
    assert (state.state, "good.py: " in (state.error or "")) == ("active", True)


async def test_a_fault_that_nobody_has_thought_of_is_that_of_its_plugin(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Grants):
        def grant_for(self, source: PluginSource, environment: Path | None = None) -> Grant:
            if source.file == "odd.py":
                raise ZeroDivisionError
            return super().grant_for(source, environment)

    class Class(School):
        @property
        def grants(self) -> Grants:
            return Broken(self.house.home.data_dir / "skill-grants.json", {})

    school = Class(house)
    try:
        host = await school.teach(good=GOOD, odd=GOOD.replace("good", "odd"))
        assert await school.value("good") == "here"
        [error] = [one.error for one in host.states() if one.file == "odd.py"]
        assert error == "odd.py cannot be validated: ZeroDivisionError"
        assert "a skill cannot be validated" in caplog.text
    finally:
        await school.close()
