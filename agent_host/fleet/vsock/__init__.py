"""Virtio vsock in user space: gives a virtual machine sockets to its host without a privileged device.

A process of its own for each machine, which loads nothing else of the host. It speaks vhost-user with the machine's
monitor and follows Firecracker's mapping to unix sockets: a guest that connects to port P of CID 2 comes out at
`{uds}_P`; who connects to `{uds}` and writes `CONNECT P\\n` is answered `OK N\\n` and then speaks with the guest's
port P. Everything that the guest writes is hostile: what it can make this process hold is bounded.
"""

from .command import backend_command

__all__ = ["backend_command"]
