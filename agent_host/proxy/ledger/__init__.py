"""The ledger of model calls, its report, and the log lines."""
