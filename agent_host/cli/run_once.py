"""Run one agent for one task: start a host, boot the agent, submit the task, and stop both. Uses only public APIs."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from agent_common.json_reader import JsonLimits, read_json

from ..errors import StartError
from ..fleet import DIE_WITH_PARENT

_POLL_SECONDS = 0.05
_STOP_SECONDS = 60.0
_ANSWER_LIMITS = JsonLimits(32 << 20)
_LONGEST = 86_400.0
_OVER = ("resulted", "cancelled", "expired", "dead")
_IMAGE = {
    "qemu": "MESH_VM_IMAGE",
    "firecracker": "MESH_VM_IMAGE",
    "container": "MESH_CONTAINER_IMAGE",
}


class RunOnce:
    """Runs one task. `timeout`: seconds for each step: boot, readiness, the work, and the stop."""

    def __init__(self, driver: str, image: str | None, name: str, timeout: float) -> None:
        """Raises StartError if an option is invalid or missing."""
        if not 0 < timeout <= _LONGEST:
            raise StartError(f"--timeout: must be more than 0 and at most {_LONGEST:g} seconds (is {timeout:g})")
        setting = _IMAGE.get(driver)
        if setting is not None and image is None and not os.environ.get(setting):
            raise StartError(f"--driver {driver} boots an image: name it with --image or {setting}")
        self._driver = driver
        self._image = image
        self._name = name
        self._timeout = timeout
        self._token = secrets.token_urlsafe(24)
        self._began = time.monotonic()

    def run(self, task: str, data_dir: Path | None = None) -> str:
        """Run the task and return the agent's answer. Prints each step with its time on standard error.

        Raises StartError if a step fails or takes too long.
        """
        with ExitStack() as stack:
            folder = data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-")))
            folder = folder.absolute()  # the settings need absolute socket paths
            host = stack.enter_context(self._running_host(folder))
            self._request(
                host, "POST", "/workspaces", {"id": self._name, "driver": self._driver}, accepted_code="id_taken"
            )
            stack.callback(self._request, host, "POST", f"/workspaces/{self._name}/stop")
            self._request(host, "POST", f"/workspaces/{self._name}/start")
            self._print_step("it runs")
            self._wait_until("give it work", lambda: self._is_ready(host))
            self._print_step("it is attached and can be given work")
            answer = self._run_task(host, task)
            self._print_step("it has answered")
        self._print_step("it is off")
        return answer

    @contextmanager
    def _running_host(self, folder: Path) -> Generator[httpx2.Client]:
        host = self._start_host(folder)
        try:
            transport = httpx2.HTTPTransport(uds=str(folder / "mesh.sock"))
            headers = {"authorization": f"Bearer {self._token}"}
            with httpx2.Client(
                transport=transport, base_url="http://host", headers=headers, timeout=self._timeout + 10
            ) as client:
                self._wait_until("reach the host", lambda: self._is_up(client, host, folder))
                yield client
        finally:
            host.terminate()
            try:
                host.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                host.kill()
                host.wait()

    def _start_host(self, folder: Path) -> subprocess.Popen[bytes]:
        """Start a host that is killed when this process dies. It gets no Ctrl-C, so that we can stop it in order."""
        command = (*DIE_WITH_PARENT, str(os.getpid()), sys.executable, "-m", "agent_host", "up")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            log = (folder / "host.log").open("ab")
        except OSError as error:
            raise StartError(f"--data-dir: cannot write to {folder}: {error.strerror}") from error
        with log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(folder),
                start_new_session=True,
            )

    def _environment(self, folder: Path) -> dict[str, str]:
        given = {
            "MESH_HOST": "off",
            "MESH_LISTEN": f"unix:{folder}/mesh.sock",
            "MESH_LISTENER_URL": f"unix:{folder}/work.sock",
            "MESH_DATA_DIR": str(folder),
            "MESH_ADMIN_TOKEN": self._token,
            "MESH_START_TIMEOUT": f"{self._timeout:g}",
            "MESH_RESTART": "false",
            "MESH_RESTORE": "false",
        }
        if self._image is not None and self._driver in _IMAGE:
            given[_IMAGE[self._driver]] = self._image
        return {**os.environ, **given}

    # ---------------------------------------------------------------- the steps

    def _is_up(self, client: httpx2.Client, host: subprocess.Popen[bytes], folder: Path) -> bool:
        if host.poll() is not None:
            raise StartError(f"the host did not start:\n{(folder / 'host.log').read_text()[-2000:].strip()}")
        try:
            return client.get("/workspaces").is_success  # a different host in the same folder refuses the token
        except httpx2.TransportError:
            return False

    def _is_ready(self, host: httpx2.Client) -> bool:
        seen = self._request(host, "GET", f"/workspaces/{self._name}")
        if seen["state"] != "running":
            raise StartError(f"the workspace is {seen['state']}: {seen['detail']}")
        mediation: dict[str, Any] = seen["mediationReady"] or {}
        return mediation.get("ready") is True

    def _run_task(self, host: httpx2.Client, task: str) -> str:
        name = uuid.uuid4().hex
        self._request(
            host, "POST", "/work", {"workspace": self._name, "request": {"request_id": name, "content": task}}
        )
        record: dict[str, Any] = {}

        def over() -> bool:
            record.update(self._request(host, "GET", f"/work/{name}"))
            return record["status"] in _OVER

        self._wait_until("get its answer", over)
        result: dict[str, Any] = record["result"] or {}
        if result.get("status") != "completed":
            raise StartError(f"the work is {record['status']}: {result.get('error') or record['error']}")
        return str(result.get("content") or "")

    def _request(
        self,
        host: httpx2.Client,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        accepted_code: str = "",
    ) -> dict[str, Any]:
        try:
            answer = host.request(method, path, json=body)
        except httpx2.TransportError as error:
            raise StartError(f"the host does not answer {method} {path}: {error}") from error
        reply: dict[str, Any] = read_json(answer.content, _ANSWER_LIMITS)
        if not answer.is_success and reply.get("code") != accepted_code:
            raise StartError(str(reply.get("detail") or reply))
        return reply

    def _wait_until(self, what: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._timeout
        while not done():
            if time.monotonic() > deadline:
                raise StartError(f"could not {what} within {self._timeout:g} s; --timeout sets a longer time")
            time.sleep(_POLL_SECONDS)

    def _print_step(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:6.2f} s  {what}", file=sys.stderr, flush=True)
