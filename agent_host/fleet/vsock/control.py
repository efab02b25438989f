"""The vhost-user protocol: handle and answer messages of the machine's monitor."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Callable

from .device import RINGS, Device
from .memory import MOST_REGIONS, BadMemory, GuestMemory, map_region

FEATURES = 1 << 32 | 1 << 30
"""Virtio 1, and negotiation of vhost-user protocol features."""
PROTOCOL_FEATURES = 1 << 0 | 1 << 3 | 1 << 9
"""Multiple queues, replies on request, and the config space."""
MAX_MESSAGE_BYTES = 4096
MESSAGE_SECONDS = 5.0
"""Time for the rest of a message once its first byte has come."""
_HEAD = struct.Struct("<III")
_VERSION = 1
_REPLY = 4
_NEED_REPLY = 8
_RING = 0xFF
_NO_FILE = 0x100


class Hangup(Exception):
    """The monitor has closed the connection, or has broken the protocol."""


class VhostUserControl:
    def __init__(self, sock: socket.socket, device: Device, cid: int) -> None:
        self._sock = sock
        self._device = device
        self._cid = cid
        sock.settimeout(MESSAGE_SECONDS)
        self._reply_handlers: dict[int, Callable[[bytes, list[int]], bytes]] = {
            1: lambda _body, _files: struct.pack("<Q", FEATURES),
            15: lambda _body, _files: struct.pack("<Q", PROTOCOL_FEATURES),
            17: lambda _body, _files: struct.pack("<Q", RINGS),
            11: self._get_vring_base,
            24: self._get_config,
        }
        self._handlers: dict[int, Callable[[bytes, list[int]], None]] = {
            5: self._set_mem_table,
            8: self._set_vring_num,
            9: self._set_vring_addr,
            10: self._set_vring_base,
            12: self._set_vring_kick,
            13: self._set_vring_call,
            18: self._set_vring_enable,
        }

    def handle_message(self) -> None:
        """Read one message and carry it out. Raises Hangup if the monitor is gone or the message is invalid."""
        files: list[int] = []
        try:
            request, flags, body = self._receive_message(files)
            self._dispatch(request, flags, body, files)
        except (OSError, ValueError, struct.error, BadMemory, IndexError) as error:
            raise Hangup(f"{type(error).__name__}: {error}") from error
        finally:
            for handle in files:
                os.close(handle)

    def _receive_message(self, files: list[int]) -> tuple[int, int, bytes]:
        """Read one message. Its descriptors are in `files` even if this raises, so that the caller can close them."""
        head, ancillary, _, _ = self._sock.recvmsg(
            _HEAD.size, socket.CMSG_SPACE(4 * MOST_REGIONS), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                files.extend(found)
        if not head:
            raise Hangup("it closed the connection")
        head += self._receive_exactly(_HEAD.size - len(head))
        request, flags, size = _HEAD.unpack(head)
        if size > MAX_MESSAGE_BYTES or flags & 3 != _VERSION:
            raise Hangup(f"a message of {size} bytes with the flags {flags:#x}")
        return request, flags, self._receive_exactly(size)

    def _receive_exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            part = self._sock.recv(count - len(found))
            if not part:
                raise Hangup("it closed the connection in the middle of a message")
            found += part
        return bytes(found)

    def _dispatch(self, request: int, flags: int, body: bytes, files: list[int]) -> None:
        if answer := self._reply_handlers.get(request):
            self._reply(request, answer(body, files))
            return
        if order := self._handlers.get(request):
            order(body, files)
        if flags & _NEED_REPLY:
            self._reply(request, bytes(8))

    def _reply(self, request: int, body: bytes) -> None:
        self._sock.sendall(_HEAD.pack(request, _VERSION | _REPLY, len(body)) + body)

    # ---------------------------------------------------------------- the messages

    def _set_mem_table(self, body: bytes, files: list[int]) -> None:
        (count,) = struct.unpack_from("<I", body)
        if count > MOST_REGIONS or count > len(files):
            raise BadMemory(f"{count} regions with {len(files)} files")
        entries = [struct.unpack_from("<QQQQ", body, 8 + 32 * number) for number in range(count)]
        regions = [map_region(handle, *one) for handle, one in zip(files, entries, strict=False)]
        self._device.set_memory(GuestMemory(regions))

    def _set_vring_num(self, body: bytes, _files: list[int]) -> None:
        number, self._device.slots[number].size = _ring_and_value(body)

    def _set_vring_addr(self, body: bytes, _files: list[int]) -> None:
        number, _flags, descriptors, used, available, _log = struct.unpack_from("<IIQQQQ", body)
        self._device.slots[_check_ring(number)].addresses = descriptors, used, available

    def _set_vring_base(self, body: bytes, _files: list[int]) -> None:
        number, self._device.slots[number].first = _ring_and_value(body)

    def _get_vring_base(self, body: bytes, _files: list[int]) -> bytes:
        number, _ = _ring_and_value(body)
        return struct.pack("<II", number, self._device.stop_ring(number))

    def _set_vring_enable(self, body: bytes, _files: list[int]) -> None:
        number, enabled = _ring_and_value(body)
        self._device.slots[number].enabled = enabled == 1

    def _set_vring_kick(self, body: bytes, files: list[int]) -> None:
        number, handle = _ring_and_file(body, files)
        self._device.set_kick(number, handle)

    def _set_vring_call(self, body: bytes, files: list[int]) -> None:
        number, handle = _ring_and_file(body, files)
        self._device.set_call(number, handle)

    def _get_config(self, body: bytes, _files: list[int]) -> bytes:
        offset, size, _flags = struct.unpack_from("<III", body)
        config = struct.pack("<Q", self._cid)[offset : offset + size] if offset <= 8 else b""
        return body[:12] + config.ljust(min(size, 256), b"\0")


def _check_ring(number: int) -> int:
    if number >= RINGS:
        raise Hangup(f"there is no ring {number}")
    return number


def _ring_and_value(body: bytes) -> tuple[int, int]:
    number, value = struct.unpack_from("<II", body)
    return _check_ring(number), value


def _ring_and_file(body: bytes, files: list[int]) -> tuple[int, int]:
    """Return the ring's number and its file descriptor, which the caller now owns; -1 if there is none."""
    (value,) = struct.unpack_from("<Q", body)
    number = _check_ring(value & _RING)
    return number, -1 if value & _NO_FILE or not files else files.pop(0)
