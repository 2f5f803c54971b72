"""Times at which jobs are due: cron expressions, intervals, windows, one decision for each time.

Nothing here runs a job.
"""
