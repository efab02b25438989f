from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_runtime.errors import ToolFailure
from agent_runtime.sandbox import SPILL_LIMIT
from agent_runtime.tools import Output
from agent_runtime.tools.core.envelope import SPILLED_HEAD_LENGTH, fit_output

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def text_of(path: str) -> str:
    return Path(path).read_bytes().decode()  # as it is: reading text would change the ends of lines


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(json_values, st.integers(min_value=0, max_value=200))
async def test_nothing_is_lost_and_nothing_is_too_big(tmp_path: Path, data: Any, limit: int) -> None:
    size = len(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
    output = await fit_output(data, limit, tmp_path)
    assert output.truncated == (size > limit)
    if not output.truncated:
        assert json.dumps(output.data) == json.dumps(data) or "\\ud" in json.dumps(data)
        return
    assert output.output_path is not None
    assert output.data["total_bytes"] == size
    assert len(output.data["head"]) <= SPILLED_HEAD_LENGTH
    whole = text_of(output.output_path)
    if isinstance(data, str):
        assert whole == data.encode(errors="replace").decode()
    elif "\\ud" not in json.dumps(data):
        assert json.loads(whole) == data


async def test_long_text_spills_as_text_so_that_it_has_lines(tmp_path: Path) -> None:
    output = await fit_output("line\n" * 100_000, 1000, tmp_path)
    assert output.data["head"] == ("line\n" * 100_000)[:SPILLED_HEAD_LENGTH]
    assert text_of(output.output_path or "").count("\n") == 100_000


@pytest.mark.parametrize("data", ["x" * 300, ["x" * 300]])
async def test_a_scratch_folder_that_cannot_be_written_costs_no_result(data: Any) -> None:
    output = await fit_output(data, 200, Path("/proc/nowhere"))
    assert (output.truncated, output.output_path) == (True, None)
    assert "x" * 300 in output.data["head"]
    assert output.data["note"] == "the whole output could not be kept in a file: No such file or directory"


async def test_the_file_is_never_larger_than_what_read_takes(tmp_path: Path) -> None:
    output = await fit_output("x" * (SPILL_LIMIT + 5), 1000, tmp_path)
    assert len(text_of(output.output_path or "")) == SPILL_LIMIT


async def test_a_tool_that_minds_its_size_is_left_alone(tmp_path: Path) -> None:
    output = Output("x" * 5000, truncated=True, output_path="/elsewhere", already_bounded=True)
    assert await fit_output(output, 1000, tmp_path) is output
    cut = await fit_output(Output("x" * 5000, truncated=True), 1000, tmp_path)
    assert cut.data["total_bytes"] == 5002, "one that does not is cut all the same"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({1, 2}, "not JSON"),
        (float("nan"), "not JSON"),
        ({"x": b"bytes"}, "not JSON"),
        ({(1, 2): 3}, "not JSON"),
    ],
)
async def test_what_is_not_json_is_told(tmp_path: Path, data: Any, complaint: str) -> None:
    with pytest.raises(ToolFailure, match=complaint):
        await fit_output(data, 1000, tmp_path)


async def test_what_goes_in_circles_or_too_deep_is_told(tmp_path: Path) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ToolFailure, match="not JSON"):
        await fit_output(circle, 1000, tmp_path)
    deep: Any = 0
    for _ in range(101):
        deep = {"x": [deep]}
    with pytest.raises(ToolFailure, match="nested more than 100 levels"):
        await fit_output(deep, 10_000, tmp_path)
    assert (await fit_output([[1]] * 200, 10_000, tmp_path)).data == [[1]] * 200
