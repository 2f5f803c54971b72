"""One file for each group of commands, named as its first command; parsing and calls, no rules."""
