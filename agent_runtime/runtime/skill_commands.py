"""`agent-runtime skill test` and `skill allow`: a plugin is tried as the server would try it, without a server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from agent_common.json_reader import JsonLimits, read_json

from ..errors import MeshUnavailable, StartError, ToolFailure
from ..sandbox import SandboxLimits, choose_confinement
from ..settings import Settings
from ..skills import (
    Environments,
    PackageIndex,
    PluginSource,
    SkillValidator,
    SmokeTest,
    Staging,
    WorkerSetup,
    describe_grant,
    find_source,
)
from ..workspace import Home
from .secrets import mesh_token, skill_grants, skill_index

_ARGUMENTS = """must be a JSON object, as in '{"path": "notes.md"}'"""
_MISSING_ACCESS = re.compile(
    r"(?m)KeyError: '[A-Z][A-Z0-9_]*'$|(Connection|Connect|URL|gai)Error|Temporary failure in name"
)
"""How a call ends that misses a secret or the network."""
_ALLOW = "It has no secret and no network unless `agent-runtime skill allow` gives it some"


def test_skill(settings: Settings, file: Path, skill: str | None, arguments: str | None) -> str:
    """Try a plugin and make one call, if `arguments` are given as JSON. Returns the report. Raises StartError, and
    ToolFailure with the plugin's fault."""
    source = _source(file)
    test = None
    if arguments is not None:
        test = SmokeTest(_parsed(arguments), skill)
    try:
        return asyncio.run(_run_test(settings, source, test))
    except ToolFailure as fault:
        if _MISSING_ACCESS.search(str(fault)) and not skill_grants(settings).has_grant(source.file):
            raise StartError(f"{str(fault).rstrip()}\n{_ALLOW}") from fault
        raise


def allow_skill(settings: Settings, file: Path, secrets: Sequence[str], hosts: Sequence[str]) -> str:
    """Let a plugin, as its code is now, have secrets and hosts. Returns what was done. Raises StartError."""
    source = _source(file)
    home = Home(settings.data_dir)
    home.prepare()
    environment = asyncio.run(_install(settings, source)) if secrets or hosts else None
    skill_grants(settings).allow(source, secrets, hosts, environment)
    if not secrets and not hosts:
        return f"{source.file} may have no secrets and reach no hosts"
    granted = [f"have {', '.join(secrets)}"] if secrets else []
    granted += [f"reach {', '.join(describe_grant(host) for host in hosts)}"] if hosts else []
    lines = [
        f"{source.file} ({source.build_digest[:12]}) may {' and '.join(granted)}, until its code or a file beside it"
        " changes",
        *([f"Or one of its packages: {', '.join(_packages(environment))}"] if environment is not None else []),
        "A server that runs takes that up when the plugin is saved again, or at its next start",
    ]
    if file.resolve().parent != settings.skills_path.resolve():
        lines.append(
            f"Once the plugin is in {settings.skills_path}, where it has other files beside it, allow it again"
        )
    return "\n".join(lines)


async def _install(settings: Settings, source: PluginSource) -> Path | None:
    """Return the folder of the packages that the plugin depends on, installed now if they are not yet; None if it has
    no dependencies. Raises StartError."""
    try:
        async with _open_trials(settings) as trials:
            return await trials.install(source)
    except ToolFailure as failure:
        raise StartError(f"its packages cannot be looked at: {failure.message}") from failure


def _packages(environment: Path) -> list[str]:
    """Return the installed packages with their versions."""
    return [" ".join(path.stem.rsplit("-", 1)) for path in sorted(environment.glob("*.dist-info"))]


def _source(file: Path) -> PluginSource:
    source = find_source(file)
    if source is None:
        raise StartError(f"{file} is no plugin: name a Python file, or a folder with __init__.py, without a leading _")
    return source


def _parsed(arguments: str) -> Mapping[str, Any]:
    try:
        parsed: Any = read_json(arguments.encode(), JsonLimits(8 << 20))
    except ValueError as error:
        raise StartError(f"--arguments: {_ARGUMENTS} ({error})") from None
    if not isinstance(parsed, dict):
        raise StartError(f"--arguments: {_ARGUMENTS}")
    return parsed  # pyright: ignore[reportUnknownVariableType]


async def _run_test(settings: Settings, source: PluginSource, test: SmokeTest | None) -> str:
    async with _open_trials(settings) as trials:
        build, tested = await trials.validate(source, test)
        try:
            lines = [f"{source.file} passes ({source.build_digest[:12]})"]
            for one in build.skills:
                lines.append(f"  {one.spec.name}: {one.spec.description.splitlines()[0]}")
                lines.append(f"    {json.dumps(one.spec.parameters)}")
            if tested is not None:
                lines.append(f"{tested.skill} returned {json.dumps(tested.result)}")
                lines += [f"  {line}" for line in tested.log.splitlines()]
            return "\n".join(lines)
        finally:
            await build.pool.close()


@asynccontextmanager
async def _open_trials(settings: Settings) -> AsyncGenerator[SkillValidator]:
    """Everything that a plugin is tried with, over a workspace of its own that is deleted afterwards."""
    from agent_common.net import WebClient

    lasting = Home(settings.data_dir)
    lasting.prepare()
    with tempfile.TemporaryDirectory(prefix="agent-skill-") as folder:
        os.chmod(folder, 0o711)  # noqa: S103  the user of confined processes passes through
        home = Home(Path(folder, "data"))
        home.prepare()
        confinement = await choose_confinement(settings.confinement, home.data_dir)
        home = home.with_owner(confinement.uid, by_path=confinement.by_path)
        token = mesh_token(settings)
        upstream = WebClient.via_proxy(settings.egress_url, token).upstream if settings.egress_url else None
        limits = replace(SandboxLimits(), memory=settings.skill_memory_mb * 2**20)
        index = PackageIndex(skill_index(settings), settings.egress_url, token)
        environments = Environments(lasting.skill_environments, confinement, settings.skill_dependencies, index)
        setup = WorkerSetup(confinement, _NoMesh(), home.workspace, limits, upstream=upstream)
        yield SkillValidator(setup, Staging(home.staged), environments, skill_grants(settings), lambda _: None)


class _NoMesh:
    """Stands in for the mesh: a plugin is tried without a model."""

    async def models(self) -> NoReturn:
        raise MeshUnavailable("`skill test` has no mesh; try this with a running server")

    async def chat(self, messages: Sequence[Mapping[str, Any]], meter: object = None, /, **options: Any) -> NoReturn:
        return await self.models()

    async def request(self, path: str, body: Any, meter: object = None, /) -> NoReturn:
        return await self.models()

    async def embed(self, texts: Sequence[str], meter: object = None, /, *, model: str | None = None) -> NoReturn:
        return await self.models()
