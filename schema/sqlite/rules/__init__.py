"""The rules that stored rows must keep beyond what the tables enforce, and their repair.

Nothing here runs unless an upgrade, an examination or a repair asks for it.
"""
