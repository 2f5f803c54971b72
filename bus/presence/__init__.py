"""The agents that the bus knows, and their heartbeats. Nothing here acts on one that is silent."""
