"""Work by commands: the raw and the json contract, and what a command is told."""
