"""An MCP server elsewhere, spoken to over Streamable HTTP on behalf of one client.

Owns what keeps that client's conversation alive whatever happens to the other side: which message may
be sent again, streams resumed where they were cut, a session opened anew when the server has forgotten
it, and one answer for every request. Speaks both eras: with a handshake, and without.

Does not know where the client is: messages come in through `Conversation.take` and go out through an
`Outlet`. (`Visitor`, a client of our own, sits right there.) Does not know signals, argv or descriptors.
"""
