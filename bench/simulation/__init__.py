"""How far a fleet of replicas goes: the costs that the benchmark measured, carried on to sizes it cannot run.

It owns the model of a fleet: what each call, session and heartbeat asks of the replicas and of Redis, the
queues that come of it, and what happens when replicas end. Bounds and spans are those of the code itself,
imported from it.

It does not know the servers behind the replicas, the network's bandwidth, or any cost that no row of the
benchmark has, but for the four in `costs.py` that are marked so.
"""
