"""Many clients with equal ids and tokens on one shared process: each must hear its own, and nothing else.

- `gossip_server.py` is the process: it tells everything it knows of a call, in an order of its own.
- `ears.py` is what a client may hear; whatever else comes is written down as wrong.
- `wires.py` are its connections: kept alive, with many requests under way at once.
- `clients.py` are the clients, one kind for every way to a server.
- `crowd.py` brings them together, ends the process now and then, and counts.
"""
