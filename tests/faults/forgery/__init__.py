"""A client that tries to pass for another: seeded attempts, none of which may get or change anything.

- `victim.py` has a session on every transport, calls that wait, streams, and a call that is parked.
- `forger.py` has a token of its own and knows everything that is kept secret from it: session ids, request
  ids, the numbers on shared processes, event ids, states.
- Nothing of the victim may reach the forger, nothing of the forger the victim; what is refused is refused
  cleanly; and what the victim does goes on as if nobody had been there.
"""
