"""Artifacts over HTTP: shapes, versions, conditions, ranges, teams, bad input, and a host that is killed."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from .live import OPERATOR, PATIENCE, Host, assert_problem
from .members import make_member
from .watching import eventually

MIB = 1 << 20
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("artifacts")
    limits = {"MESH_ARTIFACT_VERSIONS": 3, "MESH_ARTIFACT_NAMES": 20, "MESH_ARTIFACT_BYTES": 200 * MIB}
    with Host(folder / "data", **limits) as host:
        yield host


@pytest.fixture(scope="module")
def agents(host: Host) -> Iterator[dict[str, httpx.Client]]:
    """`ann` and `bob` of the team `red`, `eve` of the team `blue`, `max` of the team `full`."""
    teams = {"ann": "red", "bob": "red", "eve": "blue", "max": "full"}
    clients = {name: host.client(make_member(host, name, team)) for name, team in teams.items()}
    yield clients
    for client in clients.values():
        client.close()


@pytest.fixture(scope="module")
def ann(agents: dict[str, httpx.Client]) -> httpx.Client:
    return agents["ann"]


def put(client: httpx.Client, name: str, data: bytes, **headers: str) -> httpx.Response:
    named = {key.replace("_", "-"): text for key, text in headers.items()}
    return client.put(f"/artifacts/{name}", content=data, headers=named)


def files_of(host: Host) -> set[str]:
    """The files of all artifacts. Those of a test before may still go."""
    return {path.name for path in (host.data_dir / "artifacts").iterdir()}


# ---------------------------------------------------------------- versions


def test_an_artifact_is_stored_read_and_stored_again(host: Host, ann: httpx.Client, agents: Any) -> None:
    cause = {"X_Agent_Session": "ses_1", "X_Agent_Task": "t1", "traceparent": TRACE}
    made = put(ann, "reports/first.csv", b"a,b\n", Content_Type="text/csv; charset=utf-8", **cause)
    digest = hashlib.sha256(b"a,b\n")
    stored = {"name": "reports/first.csv", "version": 1, "sha256": digest.hexdigest(), "size": 4}
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    assert made.json() == {**stored, "media_type": "text/csv; charset=utf-8"}
    (listed,) = ann.get("/artifacts", params={"prefix": "reports/"}).json()["artifacts"]
    assert listed.pop("updated_at") > 1_700_000_000_000
    told = {"session": "ses_1", "task": "t1", "trace": "0af7651916cd43dd8448eb211c80319c"}
    assert listed == {**made.json(), "updated_by": "ann", "cause": told}
    again = put(agents["bob"], "reports/first.csv", b"\0\xff")
    assert (again.status_code, again.json()["version"]) == (200, 2)
    assert again.json()["media_type"] == "application/octet-stream"
    newest, first = ann.get("/artifacts/reports/first.csv"), ann.get("/artifacts/reports/first.csv?version=1")
    assert (newest.content, newest.headers["etag"]) == (b"\0\xff", '"2"')
    assert (first.content, first.headers["etag"]) == (b"a,b\n", '"1"')
    assert first.headers["content-type"] == "text/csv; charset=utf-8"
    assert first.headers["content-disposition"] == "attachment; filename*=UTF-8''first.csv"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    look = ann.head("/artifacts/reports/first.csv?version=1")
    assert (look.status_code, look.content) == (200, b"")
    for name in ("content-length", "etag", "content-type", "repr-digest"):
        assert look.headers[name] == first.headers[name]
    for method in ("GET", "HEAD"):
        for known in ('"2"', 'W/"2"', "*"):
            unchanged = ann.request(method, "/artifacts/reports/first.csv", headers={"If-None-Match": known})
            assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert_problem(ann.get("/artifacts/reports/first.csv?version=9"), 404, "not_found")


def test_the_newest_versions_are_kept_and_a_deletion_takes_them(host: Host, ann: httpx.Client) -> None:
    before = files_of(host)
    for number in range(5):
        assert put(ann, "kept", str(number).encode()).json()["version"] == number + 1
    codes = [ann.get("/artifacts/kept", params={"version": number}).status_code for number in range(1, 6)]
    assert codes == [404, 404, 200, 200, 200]
    eventually(lambda: len(files_of(host) - before) == 3)
    assert ann.delete("/artifacts/kept", params={"version": 5}).status_code == 204
    assert ann.get("/artifacts/kept").content == b"3", "the newest that is left"
    assert put(ann, "kept", b"x").json()["version"] == 6, "a version never comes again"
    assert ann.delete("/artifacts/kept").status_code == 204
    assert_problem(ann.get("/artifacts/kept"), 404, "not_found")
    assert_problem(ann.delete("/artifacts/kept"), 404, "not_found")
    eventually(lambda: files_of(host) <= before)
    made = put(ann, "kept", b"y")
    assert (made.status_code, made.json()["version"]) == (201, 7)


def test_a_write_with_a_condition_loses_to_one_that_was_sooner(ann: httpx.Client, agents: Any) -> None:
    bob: httpx.Client = agents["bob"]
    assert_problem(put(ann, "cas", b"0", If_Match="*"), 412, "version_conflict")
    assert put(ann, "cas", b"a", If_None_Match="*").status_code == 201
    lost = put(bob, "cas", b"b", If_None_Match="*")
    assert assert_problem(lost, 412, "version_conflict")["version"] == 1
    assert put(bob, "cas", b"b", If_Match='"1"').json()["version"] == 2
    lost = put(ann, "cas", b"c", If_Match='"1"')
    assert (assert_problem(lost, 412, "version_conflict")["version"], lost.headers["etag"]) == (2, '"2"')
    assert_problem(ann.delete("/artifacts/cas", headers={"If-Match": '"1"'}), 412, "version_conflict")
    assert ann.get("/artifacts/cas").content == b"b"
    assert ann.delete("/artifacts/cas", headers={"If-Match": '"2"'}).status_code == 204


def test_a_range_is_a_part_of_the_bytes(ann: httpx.Client) -> None:
    assert put(ann, "ranged", b"0123456789").status_code == 201

    def part(**headers: str) -> httpx.Response:
        return ann.get("/artifacts/ranged", headers={key.replace("_", "-"): text for key, text in headers.items()})

    middle = part(Range="bytes=2-4")
    assert (middle.status_code, middle.content, middle.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert part(Range="bytes=-3").content == b"789"
    assert part(Range="bytes=7-", If_Range='"1"').content == b"789"
    assert part(Range="bytes=7-", If_Range='"2"').content == b"0123456789"
    outside = part(Range="bytes=10-")
    assert_problem(outside, 416, "out_of_range")
    assert outside.headers["content-range"] == "bytes */10"


def test_lists_have_pages_by_name(agents: dict[str, httpx.Client]) -> None:
    eve = agents["eve"]
    names = ["list/Z", "list/a", "list/a/b", "list/é", "list/日本", "other"]
    for name in names:
        assert put(eve, name, name.encode()).status_code == 201
    first = eve.get("/artifacts", params={"prefix": "list/", "limit": 3}).json()
    rest = eve.get("/artifacts", params={"prefix": "list/", "limit": 3, "after": first["next"]}).json()
    assert [one["name"] for one in [*first["artifacts"], *rest["artifacts"]]] == names[:-1]
    assert "next" not in rest
    assert eve.get("/artifacts/list/日本").headers["content-disposition"].endswith("''%E6%97%A5%E6%9C%AC")


@pytest.mark.slow  # moves hundreds of megabytes
def test_the_largest_artifact_fits_and_a_larger_one_does_not(host: Host, agents: dict[str, httpx.Client]) -> None:
    client = agents["max"]
    data = os.urandom(MIB) * 64
    made = put(client, "large", data)
    assert (made.status_code, made.json()["sha256"]) == (201, hashlib.sha256(data).hexdigest())
    assert client.get("/artifacts/large").content == data
    before = files_of(host)
    assert_problem(put(client, "larger", data + b"x"), 413, "artifact_too_large")
    pieces = (data[at : at + MIB] for at in range(0, len(data), MIB))
    assert client.put("/artifacts/large", content=pieces).json()["version"] == 2, "without a declared length"
    with host.client(client.headers["authorization"].removeprefix("Bearer ")) as other:
        endless = (b"x" * MIB for _ in range(65))
        assert_problem(other.put("/artifacts/larger", content=endless), 413, "artifact_too_large")
    assert put(client, "large", data).json()["version"] == 3
    assert put(client, "large", data).json()["version"] == 4, "the version that it replaces makes room"
    body = assert_problem(put(client, "more", data), 507, "artifacts_full")
    assert "delete some" in body["detail"]
    eventually(lambda: len(files_of(host) - before) == 3)


def test_a_team_has_so_many_artifacts(host: Host) -> None:
    params = {"team": "many"}
    for number in range(20):
        assert host.operator.put(f"/artifacts/{number}", content=b"x", params=params).status_code == 201
    assert_problem(host.operator.put("/artifacts/20", content=b"x", params=params), 507, "artifacts_full")
    assert host.operator.put("/artifacts/19", content=b"y", params=params).status_code == 200
    assert host.operator.delete("/artifacts/0", params=params).status_code == 204
    assert host.operator.put("/artifacts/20", content=b"x", params=params).status_code == 201


# ---------------------------------------------------------------- teams and bad input


def test_a_team_sees_nothing_of_another(host: Host, ann: httpx.Client, agents: dict[str, httpx.Client]) -> None:
    eve = agents["eve"]
    assert put(ann, "secret", b"red's").status_code == 201
    for method in ("GET", "DELETE"):
        assert_problem(eve.request(method, "/artifacts/secret"), 404, "not_found")
    assert eve.head("/artifacts/secret").status_code == 404
    for method, path in (("GET", "/secret"), ("PUT", "/secret"), ("DELETE", "/secret"), ("GET", "")):
        assert_problem(eve.request(method, f"/artifacts{path}", params={"team": "red"}), 404, "not_found")
    assert "secret" not in eve.get("/artifacts").text
    assert put(eve, "secret", b"blue's").json()["version"] == 1
    assert host.operator.get("/artifacts/secret", params={"team": "red"}).content == b"red's"
    assert_problem(host.operator.get("/artifacts/secret"), 404, "not_found")
    with host.client(None) as nobody:
        assert_problem(nobody.put("/artifacts/x", content=b"x"), 401, "unauthorized")


BAD_NAMES = ["a//b", "/a", "a/", "a%2F.%2Fb", "%2E%2E%2Fb", "a%00b", "a%5Cb", "x" * 513, "%E2%80%AE"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_can_be_misread_is_refused(ann: httpx.Client, name: str) -> None:
    for method in ("PUT", "GET", "DELETE"):
        refused = ann.request(method, f"/artifacts/{name}")
        assert (refused.status_code, [fault["field"] for fault in refused.json()["errors"]]) == (422, ["name"])


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ([("Content-Type", "text")], "Content-Type"),
        ([("Content-Type", "text/html; charset")], "Content-Type"),
        ([("Content-Type", "text/" + "x" * 200)], "Content-Type"),
        ([("Content-Type", "text/html"), ("Content-Type", "text/plain")], "Content-Type"),
        ([("Content-Encoding", "gzip")], "content-encoding"),
        ([("Content-Range", "bytes 0-1/5")], "content-range"),
        ([("If-Match", "one")], "If-Match"),
        ([("If-None-Match", '"1"')], "If-None-Match"),
        ([("If-None-Match", "*"), ("If-Match", "*")], "If-None-Match"),
        ([("X-Agent-Session", "x" * 201)], "x-agent-session"),
    ],
)
def test_a_bad_write_is_refused_and_nothing_is_written(
    host: Host, ann: httpx.Client, headers: list[tuple[str, str]], field: str
) -> None:
    before = files_of(host)
    refused = ann.put("/artifacts/bad", content=b"x", headers=headers)
    assert assert_problem(refused, 422, "invalid_request")["errors"][0]["field"].lower() == field.lower()
    assert ann.get("/artifacts/bad").status_code == 404
    assert files_of(host) <= before


def test_queries_name_what_is_wrong(ann: httpx.Client, host: Host) -> None:
    for path, params, field in (
        ("/artifacts", {"limit": "0"}, "limit"),
        ("/artifacts", {"limit": "1001"}, "limit"),
        ("/artifacts", {"prefix": "x" * 513}, "prefix"),
        ("/artifacts", {"after": "\n"}, "after"),
        ("/artifacts/x", {"version": "0"}, "version"),
        ("/artifacts/x", {"version": "one"}, "version"),
    ):
        body = assert_problem(ann.get(path, params=params), 422, "invalid_request")
        assert body["errors"][0]["field"] == field
    assert_problem(host.operator.get("/artifacts", params={"team": "a b"}), 422, "invalid_request")


# ---------------------------------------------------------------- what breaks


def half_an_upload(host: Host, name: str) -> socket.socket:
    """Begin to upload, and send the half of it."""
    at = urlsplit(host.url)
    assert at.hostname is not None
    connection = socket.create_connection((at.hostname, at.port), timeout=PATIENCE)
    head = f"PUT /artifacts/{name} HTTP/1.1\r\nHost: host\r\nAuthorization: Bearer {OPERATOR}\r\n"
    connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % (8 * MIB) + b"x" * (4 * MIB))
    return connection


def slow_download(host: Host, name: str, token: str, *headers: str) -> tuple[socket.socket, int]:
    """Ask for an artifact, and read no more of the answer than its head. Returns its status, too."""
    at = urlsplit(host.url)
    assert at.hostname is not None
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect((at.hostname, at.port))
    asked = (f"GET /artifacts/{name} HTTP/1.1", "Host: host", f"Authorization: Bearer {token}", *headers, "", "")
    connection.sendall("\r\n".join(asked).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(1)
    return connection, int(head.split()[1])


@pytest.mark.slow  # takes its time on purpose
def test_downloads_that_take_long_are_shared_by_their_bytes(host: Host) -> None:
    tokens = {name: make_member(host, name, "slow") for name in ("sam", "sue")}
    with host.client(tokens["sam"]) as sam, host.client(tokens["sue"]) as sue, ExitStack() as slow:
        assert [put(sam, "large", bytes(64 * MIB)).json()["version"] for _ in range(2)] == [1, 2]
        assert put(sam, "small", b"1").status_code == 201
        for number in range(32):
            ranges = ["Range: bytes=0-"] if number % 2 else []
            connection, status = slow_download(host, "large?version=1", tokens["sam"], *ranges)
            slow.enter_context(connection)
            assert status == (206 if number % 2 else 200)
        assert sam.delete("/artifacts/large?version=1").status_code == 204
        for name in ("large", "small"):
            refused = sam.get(f"/artifacts/{name}", headers={"Range": "bytes=0-0"})
            assert_problem(refused, 429, "too_many_downloads")
            assert refused.headers["retry-after"] == "1"
            assert sue.get(f"/artifacts/{name}", headers={"Range": "bytes=0-0"}).status_code == 206
        assert sam.head("/artifacts/large").status_code == 200
        assert sam.get("/artifacts/large", headers={"If-None-Match": "*"}).status_code == 304
        assert_problem(sam.get("/artifacts/small", headers={"Range": "bytes=9-"}), 416, "out_of_range")
        slow.close()
        eventually(lambda: sam.get("/artifacts/large").status_code == 200)


def parts(host: Host) -> list[str]:
    return [name for name in files_of(host) if name.endswith(".part")]


def test_an_upload_that_breaks_off_leaves_nothing(host: Host) -> None:
    with half_an_upload(host, "broken"):
        eventually(lambda: bool(parts(host)))
    eventually(lambda: not parts(host))
    assert_problem(host.operator.get("/artifacts/broken"), 404, "not_found")


@pytest.mark.slow
def test_a_killed_host_keeps_what_it_has_answered_and_nothing_else(tmp_path: Path) -> None:
    with Host(tmp_path / "data") as host:
        assert put(host.operator, "whole", b"1").status_code == 201
        assert put(host.operator, "gone", b"2").status_code == 201
        assert host.operator.delete("/artifacts/gone").status_code == 204
        with half_an_upload(host, "whole"):
            eventually(lambda: bool(parts(host)))
            os.kill(host.process.pid, signal.SIGKILL)
            (host.data_dir / "artifacts" / f"art_{'0' * 32}").write_bytes(b"a file whose row was not written")
            (host.data_dir / "artifacts" / "notes.txt").write_bytes(b"somebody else's")
            host.start()
        assert host.operator.get("/artifacts/whole").content == b"1"
        left = sorted(files_of(host))
        assert (len(left), left[1]) == (2, "notes.txt")
        assert put(host.operator, "whole", b"3", If_Match='"1"').json()["version"] == 2
        assert put(host.operator, "gone", b"4").json()["version"] == 2
