"""`python -m tests.redteam.driver GROUND`, inside the container: furnishes it, plays the cases, prints outcomes."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from agent_testing import ScriptedProvider

from .canaries import Canaries
from .case import PARALLEL, Case, bash
from .cases import CASES, PARTS
from .container import SECRET
from .ground import SERVER_USER, Ground
from .play import Model, Outcome, Play, World
from .target import Target

AT_ONCE = 4
"""Cases on the shared server at the same time."""
APART_AT_ONCE = 3
QUIET = {"AGENT_TOOL_TIMEOUT": "3"}
"""Settings of the server where cases play one after another: searches that never end must come to their end."""
KINDS = ("token", "mesh", "inherited", "database", "scratch", "backup", "skill", "mediation", "constraints")
WEAK = "permissions: {read: allow, task: allow}\ntools: [read, task]"
MIGHTY = 'permissions: {"*": allow}'
AGENTS = {
    name: f"---\ndescription: Does what it is told.\nmode: all\n{rights}\n---\nDo it."
    for name, rights in {"weak": WEAK, "mighty": MIGHTY}.items()
}
PLUGINS = Path(__file__).with_name("plugins")
VICTIM = Case("victim", "read", "another session works here", ((bash("ls -a $SCRATCH"),),), lambda _: "")


class Stage:
    """The world inside the container, and servers in it."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.uid = SERVER_USER if ground.server == "user" else 0
        self.secrets = {kind: f"canary-{kind}-{secrets.token_hex(6)}" for kind in KINDS} | {"etc": SECRET}
        self._numbers = itertools.count(1)

    def furnish(self) -> None:
        """What lies around on a machine."""
        for name in ("mesh", "inherited", "mediation"):
            _write(Path("/run/secrets", name), self.secrets[name], self.uid)
        for name in ("/var/log/agent.log", "/tmp/note-of-the-host", "/dev/shm/note-of-the-host"):
            _write(Path(name), self.secrets["etc"], self.uid)
        for name in ("/etc/target", "/srv/target"):
            _write(Path(name), "untouched", 0)
        program = next(Path(sys.prefix).resolve().glob("lib/python3*/site-packages")) / "suid-id"
        shutil.copy("/usr/bin/id", program)
        program.chmod(0o4755)

    def target(self, more: Mapping[str, str], model_url: str, place: str = "/data") -> Target:
        """A server of its own with its own data, not started yet."""
        data = Path(f"{place}/{next(self._numbers)}")
        settings = {
            "AGENT_ID": "canary-agent",
            "AGENT_PORT": "0",
            "AGENT_DATA_DIR": str(data),
            "AGENT_LLM_BASE_URL": model_url,
            "AGENT_TOKEN": self.secrets["token"],
            "AGENT_MESH_TOKEN_FILE": "/run/secrets/mesh",
            "AGENT_MEDIATION_URL": "unix:/run/nobody.sock",
            "AGENT_MEDIATION_KEY_FILE": "/run/secrets/mediation",
            "AGENT_CONFINEMENT": self.ground.confinement,
            "AGENT_MODEL_ATTEMPTS": "1",
            "AGENT_CONTEXT_LIMIT": "100000000",  # the scripted model has no answer to a wish for a summary
            "AGENT_MAX_CONCURRENT_TURNS": "8",
            "AGENT_MAX_PARALLEL_TOOLS": str(PARALLEL),
            **more,
        }
        for name, kind in {
            "backups/agent-1.txt": "backup",
            "skills/_private.py": "skill",
            "constraints/payload-1": "constraints",
        }.items():
            _write(data / name, self.secrets[kind], self.uid)
        _write(data / "target", "untouched", 0)
        for name, manifest in AGENTS.items():
            _write(data / f"agents/{name}.md", manifest, self.uid)
        for plugin in PLUGINS.glob("*.py"):
            shutil.copy(plugin, data / "skills")
        for path in (data, *data.rglob("*")):
            if path.name != "target":
                os.chown(path, self.uid, self.uid)
        data.chmod(0o700)
        return Target(data, self.uid, self.secrets["token"], model_url, settings)

    def check_backend(self, name: str) -> None:
        """Raises RuntimeError when commands are held otherwise than they should be."""
        if self.ground.backend not in ("", name):
            raise RuntimeError(f"{self.ground.backend} was wanted, and {name} is in force")

    def victim(self, target: Target) -> None:
        """Another session, with something to tell and a file in its scratch."""
        target.chat(f"remember {self.secrets['database']}", "victim")
        target.chat("case:victim", "victim")
        [scratch] = (target.data / "scratch").iterdir()
        (scratch / "notes").write_text(self.secrets["scratch"])


def _write(path: Path, text: str, uid: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    os.chown(path, uid, uid)


def plays(stage: Stage, cases: Sequence[Case]) -> Iterator[Outcome]:
    """All cases: side by side on one server, then one after the other where time is measured, then on their own."""
    model = Model([VICTIM, *cases, *PARTS])
    with ExitStack() as stack:
        provider = stack.enter_context(ScriptedProvider(model.answer))
        canaries = stack.enter_context(Canaries(Path("/run/secrets/inherited")))
        world = World(stage.ground, provider, canaries, stage.secrets)

        def on(target: Target, case: Case) -> Outcome:
            for name in (case.name, *(part.name for part in PARTS if case.agent)):
                model.targets[name] = target
            return Play(case, target, world).run()

        def apart(case: Case) -> Outcome:
            with stage.target(case.settings, provider.url, "/disk" if case.on_disk else "/data") as target:
                return on(target, case)

        if shared := [case for case in cases if not case.apart]:
            with stage.target({}, provider.url) as target, ThreadPoolExecutor(AT_ONCE) as pool:
                model.targets[VICTIM.name] = target
                stage.victim(target)
                stage.check_backend(target.get("/status")["confinement"])
                yield from pool.map(lambda case: on(target, case), shared)
        if quiet := [case for case in cases if case.apart == "quiet"]:
            with stage.target(QUIET, provider.url) as target:
                yield from (on(target, case) for case in quiet)
        if room := [case for case in cases if case.apart == "room"]:
            with stage.target(room[0].settings, provider.url) as target:
                for case in room:
                    yield on(target, case)
                    target.clear(case.name)
        with ThreadPoolExecutor(APART_AT_ONCE) as pool:
            yield from pool.map(apart, (case for case in cases if case.apart in ("own", "restart", "crash")))
        yield from map(apart, (case for case in cases if case.apart == "alone"))


def main() -> None:
    ground = Ground.from_json(sys.argv[1])
    cases = [case for case in CASES if not ground.names or case.name in ground.names]
    stage = Stage(ground)
    stage.furnish()
    for outcome in plays(stage, cases):
        print(outcome.to_json(), flush=True)


if __name__ == "__main__":
    main()
