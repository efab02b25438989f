"""What callers ask for: chats, tasks, answers to questions, and recovery after a crash."""
