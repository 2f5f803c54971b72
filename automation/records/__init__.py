"""Records beside the log: facts and states of plugins, logs of jobs, breakers, the service's fence.

Nothing here runs a plugin or decides what follows from a job.
"""
