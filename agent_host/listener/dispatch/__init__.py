"""Decide when work is sent, what an agent's answers mean, and when work is retried.

A session is one attachment of an agent. Calls between the modules, in the usual order:

    Listener.submit ─► dispatcher (queue; `gate` opens or holds it) ─► session ─► the agent
    the agent ─► frame_reader ─► results ─► the ledger, or retries ─► dispatcher
    a new session ─► resume, retries (lost work) and constraints ─► dispatcher

All open work is in `WorkLedger.active`, and its row in the database. It is also in one of these places, in memory:

- the queue of its channel, or `waiting_for_constraints`
- the slots of a session, from before it is sent until the agent has completed it
- `lost` of its channel, from a broken connection until the agent attaches again and lists the work that it still has
- none, while its deadline counts a pause before a retry, or the time in which the agent sends a result again

`OpenWork.lost` is set while its agent may still report on it without a slot. Such work is not sent.
"""
