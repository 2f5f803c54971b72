"""The HTTP forms of PushPals' control plane, as an application of its own within the server's.

Nothing here decides or stores anything but by the room `tasks`.
"""
