"""Target branches, here or of a remote, moved by compare-and-swap; and the tree for checks.

Nothing here decides what lands.
"""
