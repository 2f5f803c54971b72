"""One file for each group of commands, named as its first command: its options, calls, output.

Nothing here is a rule about a bus.
"""
