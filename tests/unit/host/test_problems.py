"""Errors that nobody foresaw still take the shape of their path, and tell the caller nothing of the inside."""

from __future__ import annotations

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import DataError

from agent_common.net import ShareCounter
from agent_host.http import BodyLimit, JsonRoute, problems


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()
    problems.install(app)

    @app.get("/v1/crash")
    @app.get("/crash")
    async def crash() -> None:  # pyright: ignore[reportUnusedFunction]
        raise RuntimeError("the secret is 42")

    @app.get("/kept")
    async def not_kept() -> None:  # pyright: ignore[reportUnusedFunction]
        raise DataError("INSERT INTO secrets", {}, ValueError("text fields cannot contain NUL"))

    return app


async def get(app: FastAPI, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        return await client.get(path)


async def test_a_crash_is_a_problem(app: FastAPI, capsys: pytest.CaptureFixture[str]) -> None:
    reply = await get(app, "/crash")
    assert (reply.status_code, reply.headers["content-type"]) == (500, "application/problem+json")
    assert reply.json()["code"] == "internal"
    assert "42" not in reply.text
    assert "the secret is 42" in capsys.readouterr().out, "the log tells it"


async def test_a_crash_under_v1_has_openais_shape(app: FastAPI) -> None:
    reply = await get(app, "/v1/crash")
    assert reply.status_code == 500
    assert (reply.json()["error"]["type"], reply.json()["error"]["code"]) == ("api_error", "internal")


async def test_a_value_that_the_database_does_not_take_is_the_callers(app: FastAPI) -> None:
    reply = await get(app, "/kept")
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")
    assert "NUL" in reply.json()["detail"]
    assert "secrets" not in reply.text


class Bed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    flower: str = ""


class Garden(BaseModel):
    model_config = ConfigDict(extra="forbid")

    beds: list[Bed] = []


@pytest.mark.parametrize(
    ("query", "body", "field", "told"),
    [
        ("?colou=red", {}, "colou", 'unknown field; did you mean "colour"?'),
        ("?size=3", {}, "size", "unknown field; remove it"),
        ("", {"bed": []}, "bed", 'unknown field; did you mean "beds"?'),
        ("", {"beds": [{}, {"flour": "rose"}]}, "beds.1.flour", 'unknown field; did you mean "flower"?'),
        ("", {"trees": []}, "trees", "unknown field; remove it"),
    ],
)
async def test_a_misspelt_name_is_told_with_the_one_that_was_meant(
    query: str, body: object, field: str, told: str
) -> None:
    app, router = FastAPI(), APIRouter(route_class=JsonRoute)
    problems.install(app)

    @router.put("/garden")
    async def put(garden: Garden, colour: str = "") -> None:  # pyright: ignore[reportUnusedFunction, reportUnusedParameter]
        pass

    app.include_router(router)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://host") as client:
        reply = await client.put(f"/garden{query}", json=body)
    assert reply.json()["errors"] == [{"field": field, "message": told}]


async def test_what_is_no_request_passes_the_body_limit() -> None:
    seen: list[str] = []

    async def app(scope: object, receive: object, send: object) -> None:
        seen.append(scope["type"])  # pyright: ignore  # type: ignore

    await BodyLimit(app, ShareCounter(1))({"type": "lifespan"}, None, None)  # pyright: ignore  # type: ignore
    assert seen == ["lifespan"]
