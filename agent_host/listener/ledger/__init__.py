"""The durable ledger of work and its single writer."""
