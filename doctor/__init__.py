"""Examining a bus, recovering what a damaged file holds, and repairing it.

Nothing here prints, and nothing is changed unless a repair is asked for.
"""
