"""The boot document for the guest's init. It is passed on a small disk, because it holds secrets that must not be on
the kernel's command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...listener import GUEST_PORT
from ..driver import LaunchRequest
from .image import Image

GUEST_CID = 3
"""The same for all machines, because each has its own vsock device."""
CONTROL_PORT = 1024
HTTP_PORT = 8400
"""Ports in the guest: of its init, and of the init's relay to the runtime's HTTP server."""
MEDIATION_PORT = GUEST_PORT
MESH_PORT = 8420
EGRESS_PORT = 8421
"""Ports of the host."""
SECRETS = "/run/secrets"
_OURS = frozenset(
    {
        "AGENT_DATA_DIR",
        "AGENT_EGRESS_URL",
        "AGENT_HOST",
        "AGENT_ID",
        "AGENT_LLM_BASE_URL",
        "AGENT_MEDIATION_DIALECT",
        "AGENT_MEDIATION_KEY_FILE",
        "AGENT_MEDIATION_REQUIRED",
        "AGENT_MEDIATION_URL",
        "AGENT_MESH_TOKEN",
        "AGENT_MESH_TOKEN_FILE",
        "AGENT_MESH_URL",
        "AGENT_PORT",
        "AGENT_TOKEN",
        "AGENT_TOKEN_FILE",
    }
)


def boot_document(launch: LaunchRequest, image: Image, operator_env: Mapping[str, str], grace: float) -> dict[str, Any]:
    """Return the boot document. All addresses are vsock, because the machine has no network card.

    `operator_env`: the host's own environment, whose `AGENT_` settings are passed on unless this function sets them.
    `grace`: seconds that the runtime gets to stop.
    """
    secrets = {"token": launch.token, "mesh.token": launch.mesh_token}
    env = {
        **image.env,
        "TINI_SUBREAPER": "1",  # the image's own reaper is not process 1 here
        **{name: value for name, value in operator_env.items() if name.startswith("AGENT_") and name not in _OURS},
        **launch.settings,
        "AGENT_ID": launch.id,
        "AGENT_DATA_DIR": "/data",
        "AGENT_HOST": "127.0.0.1",
        "AGENT_TOKEN_FILE": f"{SECRETS}/token",
        "AGENT_MESH_URL": f"http+vsock://2:{MESH_PORT}",
        "AGENT_MESH_TOKEN_FILE": f"{SECRETS}/mesh.token",
    }
    if launch.egress_url:
        env["AGENT_EGRESS_URL"] = f"http+vsock://2:{EGRESS_PORT}"
    if launch.mediation_url:
        env["AGENT_MEDIATION_URL"] = f"vsock://2:{MEDIATION_PORT}"
        env["AGENT_MEDIATION_DIALECT"] = launch.mediation_dialect
        env["AGENT_MEDIATION_REQUIRED"] = str(launch.mediation_required).lower()
    if launch.mediation_key:
        secrets["mediation.key"] = launch.mediation_key
        env["AGENT_MEDIATION_KEY_FILE"] = f"{SECRETS}/mediation.key"
    return {
        "hostname": launch.id,
        "command": list(image.command),
        "uid": image.uid,
        "gid": image.gid,
        "cwd": image.cwd,
        "env": env,
        "secrets": secrets,
        "control_port": CONTROL_PORT,
        "http_port": HTTP_PORT,
        "grace": grace,
    }
