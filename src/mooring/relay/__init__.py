"""Reaching a server from elsewhere.

Owns the relay's protocol (docs/relay-protocol.md): envelopes on a WebSocket, connections that share one link
fairly and survive its loss, who may come, which agent has which name; the relay's side of it, the agent's on
a workstation, and the certificates of a relay.

Does not know MCP beyond the JSON-RPC envelope: whatever a server says over HTTP passes as it is.
"""
