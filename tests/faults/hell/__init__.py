"""A child from hell × a client from hell: seeded runs, and an oracle that must find nothing wrong.

- `child.py` is the server: a process that draws its misdeeds from the seed, and writes down what it did.
- `client.py` is the other side: sessions that draw theirs, over real sockets (`talker.py`, `wires.py`);
  `sse_client.py` is the same on the old transport, `modern_client.py` that of 2026-07-28, and
  `ws_client.py` both on a WebSocket. What they hear is checked on the spot (`hearing.py`, `meant.py`).
- `facts.py` is what both sides tell; `oracle.py` judges it.
- `run.py` brings them together around the real listener, workload and sessions.

    python -m tests.faults.hell SEED          repeats one run, and shows what each side did
    python -m tests.faults.hell FIRST-LAST    many of them

A seed fixes every decision of both sides; which of them comes first is the machine's.
"""
