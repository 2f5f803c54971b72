"""`bus demo --automation`: a real service on an empty bus, whose clock the demo moves.

Nothing here prints, and nothing leaves the machine.
"""
