"""MCP bytes as values.

Owns line framing, the JSON-RPC envelope, server-sent events, the values of an HTTP
exchange, the rules of each protocol revision, and the bookkeeping of one conversation:
which answer belongs to which call, what a replacement server must be told, which
events a client may still ask for. Sans-IO: bytes and values in, bytes and values out.

Does not know sockets, processes, event loops or clocks; whoever needs a moment in time
passes it in.
"""
