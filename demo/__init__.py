"""`bus demo`: a small team of agents examines a tree of files, and proves that it lost none.

Nothing here prints: it tells what happens, and `cli/` shows it.
"""
