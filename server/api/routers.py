"""The routers of the JSON API, in the order in which paths are matched."""

from .agents import router as agents
from .blobs import router as blobs
from .claims import router as claims
from .conversations import router as conversations
from .inboxes import router as inboxes
from .jobs import router as jobs
from .leases import router as leases
from .messages import router as messages
from .queues import router as queues

# Jobs and claims before queues: a queue's name may have slashes in it.
ROUTERS = (messages, inboxes, conversations, jobs, claims, queues, leases, agents, blobs)
