"""Waking an idle agent that has mail: its program's terminal, and notes of past wakes.

Nothing here reads the text of mail, or runs a command: only a fixed line is ever typed.
"""
