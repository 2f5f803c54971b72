"""The files that agents reserve, and the patterns that name them."""
