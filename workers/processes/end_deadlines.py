"""The time that processes have to end: after SIGTERM, and after SIGKILL."""

#: Seconds between SIGTERM, which asks, and SIGKILL, which doesn't.
GRACE_S = 5.0

#: Seconds after SIGKILL in which a process goes; one that has not can't be ended: the kernel holds
#: it in a system call, or it runs as another user (sudo).
DYING_S = 5.0
