"""What a stub listener can be made to do wrong."""

from __future__ import annotations

LISTENER_FAULTS = {
    "speaks_first": "sends a welcome to whoever connects",
    "chokes_on_probes": "hangs up, once, on the first agent after fifty probes",
    "chokes_on_resets": "hangs up, once, on the first agent after a connection was reset",
    "probes_displace": "ends the session when somebody else connects",
    "hasty": "hangs up when the first line takes more than half a second",
    "extra_field": "puts a field of its own into requests",
    "drops_crumbs": "drops pieces of fewer than 8 bytes",
    "always_welcomes": "sends a welcome to agents that have not offered the extensions",
    "few_connections": "takes no more than twenty connections at a time",
    "eager": "sends work before ready",
    "bad_welcome": "leaves a field out of its welcome",
    "blank_lines": "sends blank lines",
    "one_epoch": "gives each attachment the same epoch",
    "floods": "sends all the work there is at once",
    "last_wins": "takes the last result for a request",
    "loses_unaccepted": "drops a request whose connection breaks before it was accepted",
    "loses_accepted": "drops a request whose connection breaks after it was accepted",
    "reads_cut_lines": "takes a result without LF at the end of the connection",
    "retries_denied": "sends a request again that was denied",
    "dies_of_bad_lines": "hangs up at a line that is no frame",
    "dies_of_long_lines": "hangs up at a line over the soft limit",
    "dies_of_foreign_results": "hangs up at a result for a request that it has not given",
    "heeds_quarantine": "gives no more work to an agent that says it is quarantined",
    "endures_floods": "never hangs up, however many bad lines come",
    "endures_endless_lines": "never hangs up, however long a line is",
    "half_closes": "ends only its own direction",
    "no_ack": "does not acknowledge results",
    "no_pong": "does not answer pings",
    "dies_of_unknown_control": "hangs up at a control frame that it does not know",
    "no_resume_ok": "does not answer resume",
    "does_not_want_results": "wants a result forgotten that it has not got",
    "wants_all_results": "wants a result again that it has",
    "cancels_after_breaks": "wants work cancelled that runs on after a break",
    "trusts_silence": "never leaves an agent that has gone silent",
    "two_sessions": "leaves the older attachment open when a newer one proves itself",
    "takes_any_mac": "attaches whoever answers the challenge",
    "takes_old_macs": "attaches whoever has a MAC that was good before",
    "asks_in_vain": "gives work before the challenge is answered",
    "newcomers_displace": "ends the session when a newcomer says that it is ready",
}
"""Name -> what it does; one for each rule of the conformance tester, or several."""
LOOSE_LISTENER_FAULTS = {
    "strict_requests": "writes requests with the fields of the strict dialect",
}
"""The same, for a listener that speaks the loose dialect."""
