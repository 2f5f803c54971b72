"""`bus torture`: agents that are killed at random, and a proof over their histories."""
