"""Keys, signatures and the hash chain: proof of who wrote a message, and that none changed.

Nothing here keeps a key in a bus.
"""
