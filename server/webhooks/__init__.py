"""The door for webhooks: signed requests of other programs, taken in as jobs.

Nothing here checks a signature or stores a job: `automation/webhooks/` does.
"""
