"""The host: holds all credentials, answers agents' model calls, gives them work, and starts their runtimes."""
