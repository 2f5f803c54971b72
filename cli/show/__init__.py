"""The output: lines, tables and JSON. Nothing here decides anything."""
