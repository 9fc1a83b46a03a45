"""A small real media API for trying and testing; not for production.

It speaks the wire contract of the remote API, really transcodes files and can be told to misbehave. Jobs,
links and the bill live in memory: a restart forgets them, while finished files stay in the sandbox folder.
Start it with ``server.running_sandbox`` or ``server.serve_sandbox``; importing this package starts nothing.
"""
