"""Validate a plugin: import it in a fresh worker, check what it declares, and make its test call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_common.telemetry import logger

from ...errors import AgentRuntimeError, ToolFailure
from ...tools import check_arguments, load_schema_validator, normalize_arguments
from ..dependencies import Environments, requirements_of
from ..sources.grants import Grants
from ..sources.source import PluginSource
from ..sources.staging import Staging
from ..workers.pool import WorkerPool
from ..workers.process import WorkerSetup
from .declarations import DeclarationRefused, SkillDeclaration, check_declaration

MAX_CONCURRENT_IMPORTS = 8
"""Plugins imported at the same time, so that one that hangs does not hold up the others."""
TEST_SECONDS = 30.0
"""Seconds that a test call may take, unless the skill has a timeout of its own."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class SmokeTest:
    """A call that a new version must pass."""

    arguments: Mapping[str, Any]
    skill: str | None = None
    """None: the plugin's only skill, or the one with the plugin's name."""
    expect: Any = None
    has_expected: bool = False
    """Whether `expect` was given; it may be null."""


@dataclass(frozen=True, slots=True)
class SkillBuild:
    """A plugin that has passed, with its pool of workers."""

    source: PluginSource
    skills: tuple[SkillDeclaration, ...]
    pool: WorkerPool


@dataclass(frozen=True, slots=True)
class SmokeTestResult:
    """The outcome of a test call."""

    skill: str
    result: Any
    log: str
    """The end of what it printed."""


@dataclass(frozen=True, slots=True)
class SkillValidator:
    """Validates plugins."""

    setup: WorkerSetup
    staging: Staging
    environments: Environments
    grants: Grants
    on_disabled: Callable[[WorkerPool], object]
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_IMPORTS))

    async def validate(
        self, source: PluginSource, test: SmokeTest | None = None, *, by_agent: bool = False
    ) -> tuple[SkillBuild, SmokeTestResult | None]:
        """Install the plugin's dependencies, import it, check what it declares, run its `self_check`, and make the test
        call. Raises ToolFailure that names the file, the line and the reason for its author; then nothing of the build
        is left."""
        with _as_author_faults(source.file):
            async with self.slots:
                build = await self._import_build(source, by_agent=by_agent)
            try:
                return build, await _run_test(build, test) if test is not None else None
            except BaseException:
                await build.pool.close()
                raise

    async def install(self, source: PluginSource, *, by_agent: bool = False) -> Path | None:
        """Return the folder of the packages that a plugin depends on, installing them if need be; None if it has no
        dependencies. Raises ToolFailure."""
        # In a thread, as all that reads a plugin's text: it may have megabytes.
        requirements = await asyncio.to_thread(requirements_of, source.entry_code, source.file)
        return await self.environments.get(requirements, by_agent=by_agent) if requirements else None

    async def _import_build(self, source: PluginSource, *, by_agent: bool) -> SkillBuild:
        await load_schema_validator()
        environment = await self.install(source, by_agent=by_agent)
        grant = await asyncio.to_thread(self.grants.grant_for, source, environment)
        try:
            staged = await asyncio.to_thread(self.staging.stage, source, environment, grant)
        except OSError as error:
            text = f"{source.file} cannot be put in place: {error.strerror or error}"
            raise ToolFailure(text, kind="unavailable") from error
        pool = WorkerPool(self.setup, staged, self.on_disabled)
        try:
            declared = await _load(source, pool)
            # In a thread: many large schemas would block the event loop for too long.
            return SkillBuild(source, await asyncio.to_thread(_check_declarations, source, declared), pool)
        except BaseException:
            await pool.close()
            raise


@contextlib.contextmanager
def _as_author_faults(file: str) -> Generator[None]:
    """Report a skill that breaks or hangs in its validation as `invalid`: its author can fix it. So is one that nobody
    has thought of: no plugin may stop others, or the start."""
    try:
        yield
    except ToolFailure as failure:
        if failure.kind not in ("backend", "timeout"):
            raise
        raise ToolFailure(failure.message, kind="invalid") from failure
    except AgentRuntimeError:
        raise
    except OSError as error:  # a later scan tries again
        raise ToolFailure(f"{file} cannot be validated: {error.strerror or error}", kind="unavailable") from error
    except Exception as error:
        log.exception("a skill cannot be validated", file=file)
        raise ToolFailure(f"{file} cannot be validated: {type(error).__name__}", kind="invalid") from error


async def _load(source: PluginSource, pool: WorkerPool) -> list[Mapping[str, Any]]:
    """Load the build. A fault without a place in the plugin is given the plugin's name."""
    try:
        return await pool.load()
    except ToolFailure as failure:
        named = failure.kind == "unavailable" or source.file in failure.message
        raise failure if named else ToolFailure(f"{source.file}: {failure.message}", kind=failure.kind) from failure


def _check_declarations(source: PluginSource, declarations: list[Mapping[str, Any]]) -> tuple[SkillDeclaration, ...]:
    skills: dict[str, SkillDeclaration] = {}
    for one in declarations:
        try:
            skill = check_declaration(one)
        except DeclarationRefused as refusal:
            raise ToolFailure(f"{source.file}: skill {str(one.get('name'))[:64]}: {refusal}") from refusal
        if skill.spec.name in skills:
            raise ToolFailure(f"{source.file}: name: {skill.spec.name} is declared twice; take another name")
        skills[skill.spec.name] = skill
    return tuple(skills.values())


async def _run_test(build: SkillBuild, test: SmokeTest) -> SmokeTestResult:
    skill = _skill_under_test(build, test)
    name = skill.spec.name
    if faults := await check_arguments(skill.spec.parameters, test.arguments):
        raise ToolFailure(f"test: the arguments do not fit {name}: {'; '.join(faults)}", kind="invalid")
    seconds = skill.timeout or TEST_SECONDS
    try:
        async with asyncio.timeout(seconds):
            result = await build.pool.call(name, normalize_arguments(skill.spec.parameters, test.arguments))
    except TimeoutError:
        raise ToolFailure(f"test: {name} did not finish within {seconds:g} s", kind="timeout") from None
    except ToolFailure as failure:
        raise ToolFailure(f"test: {name} failed: {failure.message}", kind=failure.kind) from failure
    if test.has_expected and result.value != test.expect:
        raise ToolFailure(f"test: {name} gave {_clip_repr(result.value)}, not {_clip_repr(test.expect)}")
    return SmokeTestResult(name, result.value, result.log)


def _skill_under_test(build: SkillBuild, test: SmokeTest) -> SkillDeclaration:
    names = {skill.spec.name: skill for skill in build.skills}
    wanted = test.skill or (next(iter(names)) if len(names) == 1 else build.source.file.removesuffix(".py"))
    if wanted not in names:
        raise ToolFailure(f"test.skill: name one of {', '.join(names)}", kind="invalid")
    return names[wanted]


def _clip_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
