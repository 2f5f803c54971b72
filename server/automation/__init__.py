"""The API of the service of automation, by Ductile's reference: triggers, jobs, events, operations.

Nothing here decides what runs or stores it but by the classes of the room `automation`.
"""
