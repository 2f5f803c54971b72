"""The JSON API, one file for each group of operations. Nothing here is a rule about a bus."""
