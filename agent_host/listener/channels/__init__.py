"""The host's state of each workspace's channel, whether an agent is attached or not."""
