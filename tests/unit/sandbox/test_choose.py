from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent_runtime.errors import StartError, ToolFailure
from agent_runtime.sandbox import Confinement, LaunchPlan, SandboxSpec, choose_confinement
from agent_runtime.sandbox.backends.backend import find_program
from agent_runtime.sandbox.backends.unconfined import UnconfinedBackend
from agent_runtime.sandbox.probe import probe


@pytest.fixture
def box(tmp_path: Path) -> SandboxSpec:
    return SandboxSpec(tmp_path, writable=(tmp_path,))


@pytest.fixture
def no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which bubblewrap is not installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "bash", "prlimit", "choom", "nice", "setpriv"):
        (folder / name).symlink_to(find_program(name))
    monkeypatch.setenv("PATH", str(folder))


async def test_off_runs_bare(tmp_path: Path, box: SandboxSpec) -> None:
    confinement = await choose_confinement("off", tmp_path)
    assert (confinement.name, confinement.uid) == ("off", None)
    done = await confinement.run(("sh", "-c", "echo $PWD; exit 3"), box, timeout=60)
    assert (done.stdout, done.exit_code) == (f"{tmp_path}\n", 3)


@pytest.mark.usefixtures("no_bubblewrap")
async def test_auto_without_a_backend_refuses_commands_and_says_why(tmp_path: Path, box: SandboxSpec) -> None:
    confinement = await choose_confinement("auto", tmp_path)
    assert confinement.name == "none"
    told = r"commands cannot be run here: .*bwrap is not installed.*What helps: install bubblewrap"
    with pytest.raises(ToolFailure, match=told) as caught:
        await confinement.run(("true",), box, timeout=60)
    assert caught.value.kind == "unavailable"
    done = await confinement.run(("echo", "ours"), box, timeout=60, helper=True)
    assert done.stdout == "ours\n", "the product's own helpers still run"


@pytest.mark.usefixtures("no_bubblewrap")
async def test_required_without_a_backend_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"AGENT_CONFINEMENT=required, but .*bwrap is not installed"):
        await choose_confinement("required", tmp_path)


class Leaky:
    """A backend that starts what it is given and holds nothing."""

    name, uid, by_path = "landlock", None, False

    def prepare_host(self, data_dir: Path) -> None:
        """Nothing."""

    def launch(self, argv: Sequence[str], spec: SandboxSpec) -> LaunchPlan:
        return replace(UnconfinedBackend().launch(argv, spec))


async def test_a_backend_that_does_not_hold_is_found_out(tmp_path: Path) -> None:
    found = await probe.probe(Leaky(), tmp_path)  # type: ignore[arg-type]
    assert {
        *("it may gain privileges", "no filter is in force", "it can open AF_VSOCK"),
        *("it reaches the machine's own network", "it sees the data folder", "it can list the data folder"),
        *("it can read the scratch of other sessions", "it can write outside of its folders"),
        *("it can read the server's environment", "it can read the server's memory"),
        *("it can signal the server's processes", "it can set the limits of the server's processes"),
        *("it can trace other processes", "it can end the server's processes"),
        *("it can see other commands", "it can read the environment of other commands"),
        *("it can signal other commands", "it can end other commands"),
        "it can change the modes of what it does not see",
    } <= set(found)


async def test_a_backend_with_a_fault_is_not_taken(tmp_path: Path) -> None:
    def build(_: Path) -> Leaky:
        return Leaky()

    with pytest.raises(StartError, match=r"required, but no confinement works here \(leaky: .*AF_VSOCK"):
        await choose_confinement("required", tmp_path, [("leaky", build)])  # type: ignore[list-item]
    confinement = await choose_confinement("auto", tmp_path, [("leaky", build)])  # type: ignore[list-item]
    assert (confinement.name, "AF_VSOCK" in confinement.reason) == ("none", True)


async def test_a_machine_without_the_launchers_says_so(
    tmp_path: Path, box: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolFailure, match="commands cannot be run here: nice is not installed"):
        await Confinement(UnconfinedBackend()).run(("true",), box, timeout=60)


async def test_a_program_that_is_not_there_is_an_ordinary_failure(box: SandboxSpec) -> None:
    done = await Confinement(UnconfinedBackend()).run(("no-such-program",), box, timeout=60)
    assert done.exit_code == 127
    assert "no-such-program" in done.stderr


async def test_an_argument_list_that_is_too_long_is_refused(box: SandboxSpec) -> None:
    with pytest.raises(ToolFailure, match=r"could not be started: .*Argument list too long"):
        await Confinement(UnconfinedBackend()).run(("echo", "x" * 2**20), box, timeout=60)


async def test_input_reaches_the_command_and_need_not_be_read(box: SandboxSpec) -> None:
    confinement = Confinement(UnconfinedBackend())
    assert (await confinement.run(("cat",), box, timeout=60, stdin=b"said")).stdout == "said"
    done = await confinement.run((sys.executable, "-S", "-c", "pass"), box, timeout=60, stdin=b"x" * 2**20)
    assert done.exit_code == 0
