"""Commands that were called wrongly: what a person is told, before any server is asked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from agent_client import InvalidRequest, NotFound, Unauthorized
from agent_client.cli.errors import explain
from agent_client.cli.main import app
from agent_common.protocol import FieldFault, Problem


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fix the bug"], "No such command 'fix the bug'; `agent -p TEXT` gives a text to the agent"),
        (["chta"], "Did you mean 'chat'"),
        (["-p", "--help"], "-p needs a text for the agent; see `agent --help`"),
        (["up", "--provider", "nope"], "Invalid value for '--provider': 'nope' is not one of"),
    ],
)
def test_a_mistake_is_told(arguments: list[str], told: str) -> None:
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 2
    assert told in " ".join(ended.output.split())


def test_a_name_that_is_wrong_is_told_with_those_that_are_right() -> None:
    fault = FieldFault(field="agent", message="must be one of: build, {plan}")
    problem = Problem(title="", status=422, detail="agent foo does not exist", instance="/", code="invalid_request")
    told = explain(InvalidRequest(problem.model_copy(update={"errors": [fault]})))
    assert told == "agent foo does not exist; agent: must be one of: build, {plan}"


def test_a_code_that_says_no_more_than_the_text_is_left_out() -> None:
    problem = Problem(title="", status=404, detail="there is no workspace 'x'", instance="/", code="not_found")
    assert explain(NotFound(problem)) == "there is no workspace 'x'; `agent ps` lists those there are"
    quoting = problem.model_copy(update={"code": "unknown_model", "detail": "it said not_found: x"})
    assert explain(NotFound(quoting)).startswith("unknown_model: it said not_found: x")


def test_a_fix_follows_a_sentence_without_its_stop() -> None:
    why = "one made by `agent-host token ID`."
    error = Unauthorized(Problem(title="", status=401, detail=why, instance="/", code="unauthorized"))
    assert "token ID`; give its token with --token-file FILE, AGENT_TOKEN, AGENT_TOKEN_FILE or" in explain(error)
