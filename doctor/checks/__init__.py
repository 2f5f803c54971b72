"""The checks of an examination, one file for each part of a bus. Nothing here changes a bus."""
