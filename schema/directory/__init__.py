"""The bus directory: finding it, its files, who may use it, and the locks in it.

Nothing here asks SQLite.
"""
