"""Waking an idle agent that has mail: its program's terminal, and notes of when that was done.

Nothing here reads the text of mail, or runs a command: all that is ever typed is one fixed line.
"""
