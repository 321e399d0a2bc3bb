"""Requests that an agent of ours passes on for a caller at a relay: whose they are is for the agent to say.

Only who can read the daemon's own token may say so: the agent of the same user. Everybody else on this
machine is `local`, whatever the headers say.
"""

import hashlib
import hmac

from mooring.http.problems import problem
from mooring.wire.http import App, Exchange, Headers

__all__ = ["PRINCIPAL_PREFIX", "agent_headers", "proof_of", "relayed"]

PRINCIPAL_PREFIX = "relay:"
"""Before the name of a caller's token: nobody here has such a name."""
CALLER, PREFIX, PROOF = b"mooring-caller", b"mooring-prefix", b"mooring-proof"


def proof_of(token: str) -> str:
    """What shows that one can read the token, and lets nobody use that: should the port be another's by now,
    it is told nothing that opens the API."""
    return hashlib.sha256(f"mooring relay {token}".encode()).hexdigest()


def agent_headers(caller: str, prefix: str, proof: str) -> Headers:
    """With which an agent says whose a request is."""
    return [(CALLER, caller.encode()), (PREFIX, prefix.encode()), (PROOF, proof.encode())]


def relayed(app: App, token: str) -> App:
    """`app`, for which the principal of a request is who asked at the relay."""
    proof = proof_of(token).encode()

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
