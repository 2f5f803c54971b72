"""Following events: routes, pipelines, their contexts, and a run as a tree of jobs.

Nothing here ends a job: the successors of a job join the transaction that ends it.
"""
