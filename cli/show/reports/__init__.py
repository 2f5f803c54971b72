"""The reports at the end of long runs: demos and tortures.

Nothing here measures or decides anything: it shows what a run has found.
"""
