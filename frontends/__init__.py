"""Bots of chat platforms: people reach agents from Telegram and Discord, and answer approvals there.

`agent bots` runs them, in a process of its own that uses the host as any other client does.
"""
