"""Tools about the agent itself: tasks, questions, to-do list, skills, memory."""
