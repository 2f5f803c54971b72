"""`bus demo`: a small team of agents examines a tree of files, and proves that it lost none."""
