"""`python -m tests.redteam.launch UID COMMAND...`: starts a server whose parent was careless.

It inherits a connection to a canary as descriptor 8 and a secret file as descriptor 9, both without close-on-exec.
"""

from __future__ import annotations

import os
import socket
import sys

from .canaries import PORT

SOCKET, FILE = 8, 9


def main() -> None:
    uid, *command = sys.argv[1:]
    connection = socket.create_connection(("127.0.0.1", PORT))
    os.dup2(connection.fileno(), SOCKET, inheritable=True)
    os.dup2(os.open("/run/secrets/inherited", os.O_RDONLY), FILE, inheritable=True)
    if int(uid):
        os.setgroups([])
        os.setresgid(int(uid), int(uid), int(uid))
        os.setresuid(int(uid), int(uid), int(uid))
    os.execv(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main()
