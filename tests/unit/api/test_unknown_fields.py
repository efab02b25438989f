"""A misspelt field or parameter is refused, and the one that was probably meant is named."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from agent_common.protocol import ChatRequest, SessionsQuery, TaskAssignment
from agent_runtime.api import problems
from agent_runtime.api.dependencies import parse_query, read_body

SHAPES = {"chat": ChatRequest, "task": TaskAssignment}


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()
    problems.install_handlers(app)

    @app.post("/{shape}")
    async def post(request: Request, shape: str) -> None:  # pyright: ignore[reportUnusedFunction]
        await read_body(request, SHAPES[shape])

    @app.get("/sessions")
    async def get(request: Request) -> None:  # pyright: ignore[reportUnusedFunction]
        parse_query(request, SessionsQuery)

    return app


async def faults(app: FastAPI, method: str, path: str, body: object = None) -> dict[str, str]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://guest") as client:
        reply = await client.request(method, path, content=json.dumps(body))
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")
    return {fault["field"]: fault["message"] for fault in reply.json()["errors"]}


@pytest.mark.parametrize(
    ("path", "body", "field", "told"),
    [
        ("/chat", {"mesage": "hi"}, "mesage", 'unknown field; did you mean "message"?'),
        ("/chat", {"message": "hi", "colour": "red"}, "colour", "unknown field; remove it"),
        ("/chat", {"message": "hi", "m" * 100: 1}, "m" * 100, "unknown field; remove it"),
        (
            "/task",
            {"objective": "x", "token_budget": {"max_tokns": 3}},
            "token_budget.max_tokns",
            'unknown field; did you mean "max_tokens"?',
        ),
    ],
)
async def test_a_field_of_a_body(app: FastAPI, path: str, body: dict[str, Any], field: str, told: str) -> None:
    assert (await faults(app, "POST", path, body))[field] == told


async def test_a_parameter_of_a_query(app: FastAPI) -> None:
    told = await faults(app, "GET", "/sessions?limt=3&colour=red")
    assert told == {"limt": 'unknown field; did you mean "limit"?', "colour": "unknown field; remove it"}
