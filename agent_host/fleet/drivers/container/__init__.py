"""Run runtimes in containers with podman or docker: no network, a read-only root, the host's sockets mounted in.

Unix sockets take the place of vsock ports: `{uds}_2048` on the host is `/run/mesh/v.sock_2048` in the container.
"""

from .arguments import guest_environment, run_arguments
from .driver import ContainerDriver
from .engine import run_engine
from .settings import ContainerSettings

__all__ = ["ContainerDriver", "ContainerSettings", "guest_environment", "run_arguments", "run_engine"]
