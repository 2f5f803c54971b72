"""The rules that stored rows must keep beyond what the tables enforce, and their repair.

Only an upgrade, an examination or a repair runs it.
"""
