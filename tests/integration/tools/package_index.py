"""An index of Python packages on loopback: what uv reads of a real one (PEP 503), with wheels that are made here."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import ssl
import threading
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress


def wheel(name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()) -> tuple[str, bytes]:
    """Return file name and content of a wheel with these modules."""
    info = f"{name}-{version}.dist-info"
    metadata = "".join(
        (f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", *(f"Requires-Dist: {one}\n" for one in requires))
    )
    everything = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines: list[str] = []
    for path, text in everything.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text.encode())}\n")
    everything[f"{info}/RECORD"] = "".join((*lines, f"{info}/RECORD,,\n"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in everything.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()


class PackageIndex:
    """Counts what it is asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.moved: dict[str, str] = {}
        """Paths that are answered with the address of another place."""

    def add(self, name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()) -> None:
        file, content = wheel(name, version, files, requires)
        self.files[file] = content

    def page(self, path: str) -> bytes | None:
        parts = path.strip("/").split("/")
        if parts[0] == "files":
            return self.files.get(parts[-1])
        project = parts[-1].replace("-", "_")
        links = [f'<a href="/files/{file}">{file}</a>' for file in self.files if file.split("-")[0] == project]
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode() if links else None


@contextmanager
def package_index(tls: ssl.SSLContext | None = None) -> Generator[PackageIndex]:
    """Serve an index; with `tls` under the name `localhost`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            found, moved = index.page(self.path), index.moved.get(self.path)
            self.send_response(302 if moved else 200 if found is not None else 404)
            if moved:
                self.send_header("Location", moved)
            kind = "application/octet-stream" if self.path.startswith("/files") else "text/html"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(found or b"")))
            with suppress(OSError):  # who asked has gone
                self.end_headers()
                self.wfile.write(found or b"")

        def do_HEAD(self) -> None:
            self.send_response(405)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index = PackageIndex(f"http://127.0.0.1:{server.server_address[1]}/simple")
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            index.url = f"https://localhost:{server.server_address[1]}/simple"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
