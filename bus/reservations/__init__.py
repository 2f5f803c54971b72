"""The files that agents reserve, and the patterns that name them.

Nothing here opens these files, or keeps anybody from editing them: the guard in `git/` refuses
commits.
"""
