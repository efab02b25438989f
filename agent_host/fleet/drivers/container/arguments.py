"""The arguments and the environment by which a container is confined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from ...driver import LaunchRequest
from ...machine import AGENT_SOCKET_NAME, EGRESS_PORT, MEDIATION_PORT, MESH_PORT, SocketDir
from ..process import inherited_env
from .files import USER
from .settings import ContainerSettings

SOCKETS_MOUNT = "/run/mesh"
AGENT_API_MOUNT = "/run/api"
FOLDER_LABEL = "agent-mesh.folder"
WORKSPACE_LABEL = "agent-mesh.workspace"
"""Labels by which the host knows its containers again: its folder of sockets, and the workspace's id."""
NO_LABEL = "<no value>"
"""What an engine prints for a missing label."""
SECRETS_MOUNT = "/run/secrets/agent"


def run_arguments(
    settings: ContainerSettings,
    socket_dir: SocketDir,
    name: str,
    launch: LaunchRequest,
    variables: Iterable[str],
) -> tuple[str, ...]:
    """Return the arguments of `run`: no network, no capabilities, only `/data` and `/tmp` writable, no secrets.

    The engine takes the values of `variables` from its own environment: who lists processes reads arguments, and the
    URL of an index may hold a password."""
    mounts = {
        str(socket_dir.folder): f"{SOCKETS_MOUNT}:ro",
        str(socket_dir.folder / "secrets"): f"{SECRETS_MOUNT}:ro",
        str(launch.data_dir / "data"): "/data:rw",
        str(socket_dir.agent_api.parent): f"{AGENT_API_MOUNT}:rw",
    }
    return (
        *("run", "--detach", "--name", name, "--label", f"{WORKSPACE_LABEL}={launch.id}"),
        *("--label", f"{FOLDER_LABEL}={settings.run_dir}"),
        *("--network", "none", "--read-only", "--user", USER),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory", f"{settings.memory}m"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev,size=64m", *settings.limits, *settings.options),  # noqa: S108
        *(part for source, target in mounts.items() for part in ("--volume", f"{source}:{target}")),
        *(part for name in sorted(variables) for part in ("--env", name)),
        settings.image,
    )


def guest_environment(launch: LaunchRequest, operator_env: Mapping[str, str]) -> dict[str, str]:
    """Return the runtime's settings in the container, with sockets for addresses and files for secrets."""
    mine = (
        "AGENT_HOST",
        "AGENT_PORT",
        "AGENT_SOCKET",
        "AGENT_DATA_DIR",
        "AGENT_ID",
        "AGENT_TOKEN",
        "AGENT_MESH_URL",
        "AGENT_MESH_TOKEN",
    )
    kept = {
        key: value for key, value in inherited_env(operator_env).items() if key.startswith("AGENT_") and key not in mine
    }
    env = {
        **kept,
        **launch.settings,
        "AGENT_ID": launch.id,
        "AGENT_DATA_DIR": "/data",
        "AGENT_HOST": "127.0.0.1",
        "AGENT_SOCKET": f"{AGENT_API_MOUNT}/{AGENT_SOCKET_NAME}",
        "AGENT_TOKEN_FILE": f"{SECRETS_MOUNT}/token",
        "AGENT_MESH_TOKEN_FILE": f"{SECRETS_MOUNT}/mesh.token",
        "AGENT_MESH_URL": _socket_url(MESH_PORT),
    }
    if launch.egress_url:
        env["AGENT_EGRESS_URL"] = _socket_url(EGRESS_PORT)
    if launch.mediation_url:
        env["AGENT_MEDIATION_URL"] = f"unix:{SOCKETS_MOUNT}/v.sock_{MEDIATION_PORT}"
        env["AGENT_MEDIATION_DIALECT"] = launch.mediation_dialect
        env["AGENT_MEDIATION_REQUIRED"] = str(launch.mediation_required).lower()
    if launch.mediation_key:
        env["AGENT_MEDIATION_KEY_FILE"] = f"{SECRETS_MOUNT}/mediation.key"
    return env


def _socket_url(port: int) -> str:
    return f"http+unix://{quote(f'{SOCKETS_MOUNT}/v.sock_{port}', safe='')}"
