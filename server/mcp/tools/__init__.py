"""The tools and resources that agents are offered, and the session that they act in.

Nothing here hands over the body of a message without a frame that calls it data of others.
"""
