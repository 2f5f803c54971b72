"""Examine a bus, recover what a damaged file holds, and repair it."""
