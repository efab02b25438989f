"""`/artifacts`: files that the agents of a team share. `?team=` is for the operator, who sees all teams."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.types import Scope

from agent_common.protocol import ArtifactList, StoredArtifact

from ..access import TeamMember, identify_member
from ..errors import InvalidRequest
from ..http import StrictRoute, cause_of, parse_condition, parse_known
from .artifacts import Artifacts
from .names import check_media_type, check_name, check_prefix
from .reading import render_artifact
from .receiving import check_size
from .serving import artifact_headers, file_response

_LAST_VERSION = (1 << 63) - 1
router = APIRouter(prefix="/artifacts", route_class=StrictRoute)
Member = Annotated[TeamMember, Depends(identify_member)]
Version = Annotated[int | None, Query(ge=1, le=_LAST_VERSION, description="A version that is kept; unset the newest")]
IfMatch = Annotated[str | None, Header(max_length=1000, description="Only if the artifact has one of these versions")]
IfNoneMatch = Annotated[str | None, Header(max_length=1000, description="`*`: only if there is no such artifact")]


def is_artifact_upload(scope: Scope) -> bool:
    """Whether a request stores an artifact, so that its body goes to the disk and is not held in memory."""
    return scope.get("method") == "PUT" and scope.get("path", "").startswith("/artifacts/")


def _artifacts(request: Request) -> Artifacts:
    return request.app.state.artifacts


@router.get("", response_model=ArtifactList)
async def list_artifacts(
    request: Request,
    member: Member,
    prefix: Annotated[str, Query(description="Only names that begin so")] = "",
    after: Annotated[str | None, Query(description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many artifacts")] = 100,
) -> Response:
    """List artifacts by name, each in its newest version."""
    position = None if after is None else check_prefix(after, "after")
    page = await _artifacts(request).list(member.team, check_prefix(prefix, "prefix"), position, limit)
    rows = b",".join(render_artifact(row) for row in page.rows)
    rest = b"" if page.next is None else b',"next":' + to_json(page.next)
    return Response(b'{"artifacts":[%b]%b}' % (rows, rest), media_type="application/json")


@router.head("/{name:path}", response_class=Response)
async def look(
    request: Request, member: Member, name: str, version: Version = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the headers of an artifact; 304 if it has the version that the caller names."""
    known = parse_known(if_none_match)
    row = await _artifacts(request).get(member.team, check_name(name), version)
    headers = artifact_headers(row)
    if known is not None and known.holds(row.version):
        return Response(status_code=304, headers=headers)
    return Response(headers={**headers, "content-length": str(row.size)})


@router.get("/{name:path}", response_class=Response)
async def read(
    request: Request, member: Member, name: str, version: Version = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the bytes of an artifact, or a range of them; 304 if it has the version that the caller names."""
    known = parse_known(if_none_match)
    artifacts = _artifacts(request)
    opened = await artifacts.read(member.team, check_name(name), version)
    if known is not None and known.holds(opened.row.version):
        opened.file.close()
        return Response(status_code=304, headers=artifact_headers(opened.row))
    return file_response(request, opened, artifacts.downloading(member, opened.row.size))


@router.put("/{name:path}", response_model=StoredArtifact)
async def put(
    request: Request, member: Member, name: str, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Store the body as a version: 201 for a new artifact, else 200; 412 `version_conflict` with the present one."""
    checked = check_name(name)
    condition = parse_condition(if_match, if_none_match)
    media_type = check_media_type(request.headers.getlist("content-type"))
    for header in ("content-range", "content-encoding"):
        if request.headers.get(header, "identity") != "identity":
            raise InvalidRequest.from_faults([(header, "is not understood; send the whole artifact as it is")])
    declared = int(request.headers.get("content-length", "0"))
    check_size(declared)
    made, is_new = await _artifacts(request).put(
        member,
        cause_of(request),
        checked,
        media_type,
        body=request.stream(),
        declared=declared,
        condition=condition,
    )
    tag = {"etag": f'"{made.version}"'}
    return Response(made.model_dump_json(), 201 if is_new else 200, tag, media_type="application/json")


@router.delete("/{name:path}", status_code=204)
async def delete(
    request: Request, member: Member, name: str, version: Version = None, if_match: IfMatch = None
) -> Response:
    """Delete an artifact with all its versions, or one of them."""
    condition = parse_condition(if_match, None)
    await _artifacts(request).delete(member, check_name(name), version, condition)
    return Response(status_code=204)
