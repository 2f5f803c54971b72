"""The agents that the bus knows, and their heartbeats."""
