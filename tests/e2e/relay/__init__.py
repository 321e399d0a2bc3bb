"""A relay from end to end: every part is the product command in a process of its own.

place.py               a relay, a workstation with servers, and the agent between them
test_clients.py        the SDKs' clients, real servers, whose a session is
test_transports.py     every transport, in plain text and with TLS, and `mooring connect --client`
test_conformance.py    the official suite
test_kills.py          each part is killed under calls, at any moment
test_half_open.py      links that are dead and do not look it, in network namespaces
test_command.py        the commands as a user and a script have them
"""
