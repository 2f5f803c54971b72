"""The engine in one SQLite file: connections, transactions, checkpoints, tables, upgrades.

Nothing here is a statement of another room: each has its own file of SQL.
"""
