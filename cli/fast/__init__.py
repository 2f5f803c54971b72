"""The commands that run often, without typer: what they load decides how fast they start.

Nothing here imports typer or a file of `commands/`.
"""
