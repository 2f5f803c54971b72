"""From an approved commit to the head of the target branch: candidates, checks, landing.

Nothing here runs git by itself, and nothing here prints.
"""
