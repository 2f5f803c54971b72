"""`bus torture`: agents that are killed at random, and a proof over their histories.

Nothing here prints, or touches a bus but the one that it made.
"""
