"""A virtio vsock device in user space. It connects a virtual machine to its host without a privileged device.

Each machine has its own backend process, which imports nothing else of the host. It speaks vhost-user with the
machine's monitor and maps ports to unix sockets as Firecracker does: a guest that connects to port P of CID 2 reaches
`{uds}_P`; a host program that connects to `{uds}` and writes `CONNECT P\\n` receives `OK N\\n` and then talks to port P
of the guest. All input from the guest is untrusted, and the memory that it can occupy here is bounded.
"""

from .command import backend_command

__all__ = ["backend_command"]
