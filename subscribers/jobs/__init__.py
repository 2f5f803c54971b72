"""Jobs and the claims on them: states, outcomes, replies. The queues are beside this."""
