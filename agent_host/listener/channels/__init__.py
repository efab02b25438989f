"""State of each workspace's end of the channel, whether an agent is attached or not."""
