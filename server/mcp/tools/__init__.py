"""The tools and resources that agents are offered, and the session that they act in."""
