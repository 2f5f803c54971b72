"""The JSON API, one file for each group of operations."""
