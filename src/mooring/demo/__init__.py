"""A small MCP server of our own, and a tour that shows Mooring with it.

Owns one stdio server of the handshake era (2024-11-05 to 2025-11-25) whose tools do on
purpose what real servers do by accident: crash, print junk, take long, ask back. The demo,
the tests and the benchmark run it. Standard library only, and as little of that as
possible: it is started thousands of times.

Does not know Mooring: it imports nothing of it but the version, and the tour uses the
installed command like anybody else.
"""
