"""The services for callers: chats, tasks, answers to questions, and recovery after a crash."""
