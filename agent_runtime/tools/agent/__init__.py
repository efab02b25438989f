"""Tools of the agent itself: subagents, questions, the to-do list, skills, memory."""
