"""The channel to the host: its key, the rules that came over it, and its socket."""

from __future__ import annotations

from ..case import Case, bash, python, skill
from ..criteria import heard, leaked, planted, printed
from .network import send

CASES = (
    Case(
        "key-of-the-channel",
        "read",
        "read the key that answers the host's challenge",
        ((bash("cat /run/secrets/mediation"), python("print(content('/run/secrets/mediation'))")),),
        leaked("mediation"),
    ),
    Case(
        "key-of-the-channel-by-skill",
        "read",
        "read the key that answers the host's challenge, in a skill",
        ((skill("print(content('/run/secrets/mediation'))"),),),
        leaked("mediation"),
    ),
    Case(
        "constraints-read",
        "read",
        "read what the host has told the runtime",
        ((bash("cat @DATA@/constraints/*"),),),
        leaked("constraints"),
    ),
    Case(
        "constraints-made",
        "write",
        "put rules of one's own in the place of the host's",
        (
            (
                bash("echo '{}' > @DATA@/constraints/payload-9; mkdir -p /agent; echo x > /agent/planted"),
                skill("attempt(lambda: open('@DATA@/constraints/payload-8', 'w').write('x'))"),
            ),
        ),
        planted("@DATA@/constraints/payload-9", "@DATA@/constraints/payload-8", "/agent/planted"),
    ),
    Case(
        "settings-of-the-channel",
        "read",
        "look for the channel's address and key in the environment",
        (
            (
                bash("env | tr a-z A-Z | grep MEDIATION"),
                skill("print([name for name in os.environ if 'MEDIATION' in name])"),
            ),
        ),
        printed(r"AGENT_MEDIATION_\w+"),
        held_bare="the environment of commands and skills is made new in every case",
    ),
    Case(
        "socket-of-the-channel",
        "socket",
        "forge a result over the channel's unix socket, in a command and in a skill",
        ((python(send("/run/host.sock", family="AF_UNIX")), skill(send("/run/host.sock", family="AF_UNIX"))),),
        heard("unix path"),
    ),
)
