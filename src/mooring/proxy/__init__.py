"""Client sessions bridged to server instances.

Owns sessions: their calls in flight, their streams, what is replayed to a new instance
when the old one died. Each transport is an adapter onto one session type.

Does not know who started the server, nor sockets: it answers exchanges
(`mooring.wire.http.Exchange`) and writes lines to channels (`mooring.proxy.ports`).
"""
