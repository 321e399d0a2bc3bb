"""Requests that an agent of ours passes on for a caller at a relay: whose they are is for the agent to say.

Only who can read the daemon's own token may say so: the agent of the same user. Everybody else on this
machine is `local`, whatever the headers say.
"""

import hmac

from mooring.http.problems import problem
from mooring.wire.http import App, Exchange, Headers

__all__ = ["PRINCIPAL_PREFIX", "agent_headers", "relayed"]

PRINCIPAL_PREFIX = "relay:"
"""Before the name of a caller's token: nobody here has such a name."""
CALLER, PREFIX, PROOF = b"mooring-caller", b"mooring-prefix", b"mooring-proof"


def agent_headers(caller: str, prefix: str, token: str) -> Headers:
    """With which an agent says whose a request is."""
    return [(CALLER, caller.encode()), (PREFIX, prefix.encode()), (PROOF, token.encode())]


def relayed(app: App, token: str) -> App:
    """`app`, for which the principal of a request is who asked at the relay."""
    proof = token.encode()

    def relayed_app(exchange: Exchange) -> None:
        request = exchange.request
        caller = request.header(CALLER)
        if caller is not None:
            if not hmac.compare_digest(request.header(PROOF) or b"", proof):
                exchange.respond(problem(403, "not_allowed", "only Mooring's own agent may say who asks"))
                return
            request.principal = PRINCIPAL_PREFIX + caller.decode("latin-1")
            request.prefix = (request.header(PREFIX) or b"").decode("latin-1")
        app(exchange)

    return relayed_app
