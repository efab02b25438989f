"""The ledger of work and the outbox of results."""
