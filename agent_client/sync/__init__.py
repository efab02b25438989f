"""The client without `await`: the calls of `Agent` and `Mesh`, with the same types.

    with SyncAgent("http://localhost:8400", token) as agent:
        for event in agent.chat("hello"): ...

A line for each call names the async method that it waits for.
"""

from .agent import SyncAgent
from .mesh import SyncMesh
from .turns import SyncChatStream, SyncTask

__all__ = ["SyncAgent", "SyncChatStream", "SyncMesh", "SyncTask"]
