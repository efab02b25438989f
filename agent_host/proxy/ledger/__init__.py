"""The ledger of model calls, its report, and its log lines."""
