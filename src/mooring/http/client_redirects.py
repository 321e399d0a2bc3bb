"""Which redirects are followed. Pure.

| status | method | followed |
|---|---|---|
| 307, 308 | any | with the same method and body |
| 301, 302, 303 | GET | |
| 301, 302, 303 | any other | no: what was to be done would become a mere look |

And only within one server (scheme, host and port): what is said to it, and by whom, is meant for no other.
"""

from mooring.http.origin import Origin

__all__ = ["redirected"]

_KEEPING = frozenset({307, 308})
_LOOKING = frozenset({301, 302, 303})


def redirected(origin: Origin, target: str, method: str, status: int, location: bytes | None) -> str | None:
    """The target to ask for instead; None: this answer is the answer."""
    follows = status in _KEEPING or (status in _LOOKING and method == "GET")
    if not follows or location is None:
        return None
    return origin.resolve(location.decode("latin-1"), target)
