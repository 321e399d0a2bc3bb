"""Connections.

Owns HTTP/1.1 on httptools: parsing, streaming, limits, back-pressure, TLS and unix
sockets, routing, the checks of Host, Origin and bearer token, and a drain in which
every accepted connection keeps its right to an answer. And the other end of it: a client
that can tell a request that was not sent from one that may have been executed.

Does not know MCP: requests go to one callable, answers come back through the exchange.
"""
