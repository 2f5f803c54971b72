"""The engine in one SQLite file: connections, transactions, checkpoints, tables, upgrades."""
