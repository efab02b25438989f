"""Constraints: which may hold, what is read for them, and that no half of a swap is ever left."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import Rule
from agent_common.protocol.authority import Access, Authority, Layer
from agent_common.protocol.work import Constraints, ConstraintsPayload, payload_hash
from agent_runtime.mediation import ConstraintService
from agent_runtime.mediation.constraints.constraint_payload import MAX_INSTRUCTION_CHARACTERS, InvalidConstraints
from agent_runtime.mediation.constraints.constraints import PushedConstraints


def frame(version: int, payload: bytes, ref: str = "inline") -> Constraints:
    fields = {"hash": payload_hash(payload), "effective_at": "2026-11-22T02:00:00Z", "payload_ref": ref}
    return Constraints.model_validate({"version": version, **fields})


def pushed(version: int, payload: bytes) -> PushedConstraints:
    return PushedConstraints(
        frame(version, payload), ConstraintsPayload(version=version, b64=base64.b64encode(payload).decode())
    )


@pytest.fixture
def keeper(tmp_path: Path) -> ConstraintService:
    return ConstraintService(tmp_path / "kept")


def again(keeper: ConstraintService) -> ConstraintService:
    """The next life."""
    fresh = ConstraintService(keeper.folder, keeper.file)
    fresh.load()
    return fresh


async def code(keeper: ConstraintService, given: PushedConstraints) -> str:
    before = keeper.active
    with pytest.raises(InvalidConstraints) as caught:
        await keeper.apply(given)
    assert keeper.active == before, "the old ones go on to hold"
    return caught.value.code


async def test_the_same_version_never_means_other_bytes(keeper: ConstraintService) -> None:
    await keeper.apply(pushed(3, b"be kind"))
    assert await code(keeper, pushed(3, b"be rude")) == "constraints_conflict"
    assert await code(keeper, pushed(2, b"be rude")) == "constraints_stale"
    assert (await keeper.apply(pushed(3, b"be kind"))).version == 3, "the same again is only acknowledged again"
    assert again(keeper).active.instructions == "be kind"


async def test_of_many_at_once_the_highest_holds_and_can_be_read_by_the_next_life(keeper: ConstraintService) -> None:
    await keeper.apply(pushed(1, b"1"))
    all_at_once = [keeper.apply(pushed(version, str(version).encode() * 1000)) for version in (4, 2, 7, 3, 6)]
    done = await asyncio.gather(*all_at_once, return_exceptions=True)
    assert keeper.active.version == 7
    assert again(keeper).active == keeper.active
    stale = [one for one in done if isinstance(one, InvalidConstraints)]
    assert {one.code for one in stale} == {"constraints_stale"}
    assert len(list(keeper.folder.glob("payload-*"))) == 1


async def test_whoever_hangs_up_leaves_no_half_of_a_swap(keeper: ConstraintService) -> None:
    for version in range(1, 12):
        taking = asyncio.create_task(keeper.apply(pushed(version, b"x" * version)))
        for _ in range(version):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    await keeper.apply(pushed(20, b"last"))
    assert keeper.active.instructions == again(keeper).active.instructions == "last"


async def test_a_disk_that_is_full_keeps_the_old_ones(keeper: ConstraintService) -> None:
    await keeper.apply(pushed(1, b"be kind"))
    before = keeper.active
    keeper.folder.joinpath(f".payload-2-{payload_hash(b'more')[-16:]}.part").mkdir()  # what cannot be written
    with pytest.raises(IsADirectoryError):
        await keeper.apply(pushed(2, b"more"))
    assert keeper.active == before == again(keeper).active


async def test_what_cannot_be_shown_whole_is_not_acknowledged(keeper: ConstraintService) -> None:
    assert await code(keeper, pushed(1, b"x" * (MAX_INSTRUCTION_CHARACTERS + 1))) == "constraints_invalid"
    foreign = json.dumps({"policy": ["x" * MAX_INSTRUCTION_CHARACTERS]}).encode()
    assert await code(keeper, pushed(1, foreign)) == "constraints_invalid"
    assert (
        len((await keeper.apply(pushed(1, b"x" * MAX_INSTRUCTION_CHARACTERS))).instructions)
        == MAX_INSTRUCTION_CHARACTERS
    )


@pytest.mark.parametrize(
    "payload",
    [b"\xff\xfe", b"x" * (1024 * 1024 + 1), json.dumps({"rules": [{"permission": "x"}]}).encode(), b'{"rules": "x"}'],
)
async def test_what_cannot_be_understood_is_refused(keeper: ConstraintService, payload: bytes) -> None:
    assert await code(keeper, pushed(1, payload)) == "constraints_invalid"


async def test_bytes_are_hashed_as_they_are(keeper: ConstraintService) -> None:
    text = json.dumps({"instructions": "Grüße <b>&</b> \u2028 ☂"}, ensure_ascii=False)
    assert (await keeper.apply(pushed(1, text.encode()))).hash == payload_hash(text.encode())
    assert await code(
        keeper, PushedConstraints(frame(2, text.encode()), pushed(2, json.dumps(text).encode()).payload)
    ) == ("constraints_hash_mismatch")


# ---------------------------------------------------------------- a host that names a file


@pytest.fixture
def image(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "rules").write_bytes(b"be kind")
    return folder


async def test_only_files_beside_the_images_own_are_read(tmp_path: Path, image: Path) -> None:
    keeper = ConstraintService(tmp_path / "kept", image / "constraints.json")
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the server")
    (image / "link").symlink_to(secret)
    for ref in ("/etc/hostname", str(secret), "../secret", "link", str(image / "link"), "inline", "file:///etc/passwd"):
        refused = await code(keeper, PushedConstraints(frame(1, b"of the server", ref)))
        assert refused == "constraints_missing", ref
    for version, ref in enumerate(("rules", str(image / "rules"), f"file://{image}/rules"), 1):
        assert (await keeper.apply(PushedConstraints(frame(version, b"be kind", ref)))).instructions == "be kind"


async def test_what_is_no_file_is_not_waited_for(tmp_path: Path, image: Path) -> None:
    keeper = ConstraintService(tmp_path / "kept", image / "constraints.json")
    os.mkfifo(image / "pipe")
    for ref in ("pipe", ".", "nothing"):
        async with asyncio.timeout(60):
            assert await code(keeper, PushedConstraints(frame(1, b"x", ref))) == "constraints_missing"


# ---------------------------------------------------------------- the image's file and what was pushed


@pytest.mark.parametrize(("file", "push", "holds"), [(1, 2, 2), (3, 2, 3), (2, 2, 2)])
async def test_the_newer_of_file_and_push_holds(tmp_path: Path, image: Path, file: int, push: int, holds: int) -> None:
    keeper = ConstraintService(tmp_path / "kept")
    await keeper.apply(pushed(push, b"be kind"))
    named: dict[str, Any] = frame(file, b"be kind", "rules").model_dump(mode="json")
    (image / "constraints.json").write_text(json.dumps(named))
    keeper.file = image / "constraints.json"
    assert again(keeper).active.version == holds


async def test_rules_that_allow_open_nothing(keeper: ConstraintService) -> None:
    rules = [{"permission": "*", "action": "allow"}, {"permission": "write", "action": "deny"}]
    await keeper.apply(pushed(1, json.dumps({"rules": rules}).encode()))
    layer = keeper.layer()
    assert layer is not None
    own = Layer(rules=(Rule(permission="*", pattern="*", action="allow"), Rule(permission="bash", action="deny")))
    both = Authority((layer, own))
    assert [both.decide(Access(tool)).action for tool in ("read", "write", "bash")] == ["allow", "deny", "deny"]
