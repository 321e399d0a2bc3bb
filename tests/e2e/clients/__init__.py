"""Real MCP clients, each a program driven over its stdin and stdout.

One JSON command a line; each is answered with one line, in the order in which they end:

    {"id": 1, "do": "connect", "url": …, "transport": "http" | "sse" | "ws", "mode": …, "headers": {…}}
                                                        must be the first; a WebSocket has no headers
    {"id": 2, "do": "list_tools"}                       → names
    {"id": 3, "do": "call", "tool": …, "arguments": {…}, "progress": true}         → the tool's result
    {"id": 4, "do": "cancel", "call": 3}                → the SDK's own way of giving up a call
    {"id": 5, "do": "set_level", "level": …}            in 2026-07-28, of every call from now on
    {"id": 6, "do": "subscribe", "uri": …}              in 2026-07-28 by a stream, which tells of lists too
    {"id": 7, "do": "close"}                            answered when the connection is closed

    {"id": 3, "result": …}    or    {"id": 3, "error": {"code": …, "message": …, "data": …}}

What the server sends unasked comes between the answers:

    {"event": "notification", "method": …, "params": …}
    {"event": "progress", "call": 3, "progress": 1, "total": 3}
    {"event": "asked", "method": "elicitation/create", "params": …}

Every client accepts elicitation with {"answer": "forty-two"}, samples "a model's words" and has one root,
file:///harbour.
"""
