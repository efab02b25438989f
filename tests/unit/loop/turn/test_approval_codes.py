"""Codes of approvals: short, and none twice in a session."""

from __future__ import annotations

from agent_common.protocol import how_to_decide, read_typed_decision
from agent_runtime.loop.turn.approval_codes import DIGITS, LETTERS, ApprovalCodes


async def test_no_code_comes_twice_and_longer_ones_come_before_the_short_ones_run_out() -> None:
    before = {"K7", "M4", "not ours"}
    reads: list[int] = []

    async def used() -> set[str]:
        reads.append(1)
        return set(before)

    codes = ApprovalCodes(used)
    made = [await codes.new() for _ in range(1000)]
    assert len(set(made) | before) == len(made) + len(before)
    assert len(reads) == 1
    short = len(LETTERS) * len(DIGITS) // 2 - 2
    assert {len(code) for code in made[:short]} == {2}
    assert {len(code) for code in made[short:]} == {4}
    for code in made:
        read = read_typed_decision(how_to_decide(code).split("`")[1])
        assert read is not None
        assert read.code == code
