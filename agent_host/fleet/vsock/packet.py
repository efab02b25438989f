"""Packets of virtio vsock: a header of 44 bytes, then the payload."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct("<QQIIIHHIII")
LONGEST_PAYLOAD = 64 << 10
"""The largest payload that a guest's kernel puts into one packet, in bytes."""
HOST_CID = 2
STREAM = 1
REQUEST, RESPONSE, RST, SHUTDOWN, RW, CREDIT_UPDATE, CREDIT_REQUEST = range(1, 8)
NO_MORE_RECEIVE = 1
NO_MORE_SEND = 2
U32 = 0xFFFF_FFFF


class Header(NamedTuple):
    source_cid: int
    target_cid: int
    source_port: int
    target_port: int
    length: int
    kind: int
    op: int
    flags: int
    buf_alloc: int
    """Size in bytes of the sender's receive buffer for this stream."""
    fwd_cnt: int
    """Bytes of this stream that the sender's program has read, modulo 2**32."""


def parse(raw: bytes) -> Header:
    return Header._make(HEADER.unpack(raw))
