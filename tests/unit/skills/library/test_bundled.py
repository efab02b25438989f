"""The package that teaches how to write a skill, and the page about packages, held to the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_runtime.context.sections import SKILLS_CAP
from agent_runtime.settings import PREFIX, Settings
from agent_runtime.skills.library import files, front_matter, library, scanner
from agent_runtime.skills.library.sources import BUNDLED, BUNDLED_NEEDS, PACKAGE_FOLDERS
from agent_runtime.skills.worker.loading import load_plugin

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "skill-packages.md").read_text()
TEXT = (BUNDLED / "write-a-skill" / "SKILL.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def test_its_example_is_a_skill_that_passes_its_own_test(tmp_path: Path) -> None:
    (code,), (call,) = blocks("python"), blocks("json")
    (tmp_path / "example.py").write_text(code)
    (found,) = load_plugin(tmp_path / "example.py").skills
    asked = json.loads(call)
    assert asked["name"] == found.name
    assert found.function(**asked["test"]["arguments"]) == asked["test"]["expect"]


def test_it_is_short_and_named_as_its_folder() -> None:
    assert len(TEXT.splitlines()) < 80
    assert front_matter.parse(TEXT).name == "write-a-skill"
    assert set(BUNDLED_NEEDS) == {folder.name for folder in BUNDLED.iterdir()}


def test_the_page_says_what_the_code_does() -> None:
    plain = " ".join(PAGE.split())
    assert all(f"`{{workspace}}/{folder}`" in PAGE and f"`~/{folder}`" in PAGE for folder in PACKAGE_FOLDERS)
    assert f"{PREFIX}SKILL_PATHS" in PAGE
    assert "skill_paths" in Settings.model_fields
    file, front = scanner.MAX_FILE_BYTES // 1024, front_matter.MAX_BYTES // 1024
    sizes = f"{scanner.MAX_PACKAGES} packages, {file} KiB a `SKILL.md`, {front} KiB of it"
    assert sizes in plain
    assert f"The list has {SKILLS_CAP:,} characters" in plain
    assert f"at most {files.MAX_FILES} files and {files.MAX_COPY_BYTES // 2**20} MiB" in plain
    assert f"at most {front_matter.MAX_NAME_LENGTH}" in plain
    assert f"more than {library.MAX_PROMPT_READ:,} characters" in plain
    assert f"at most {front_matter.MAX_DESCRIPTION_LENGTH} characters" in plain


def test_the_example_of_the_page_is_a_package() -> None:
    (example,) = re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)
    assert front_matter.parse(example).name == "release-notes"
