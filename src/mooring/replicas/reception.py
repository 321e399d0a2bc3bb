"""Where other replicas come when they want something of this one itself: a link, or its word.

    GET                  a link: calls that they pass on come by it
    POST ?holds=NAME     does it live under that name, and may it act for its sessions?
    POST ?rest=NAME      NAME sees no Redis: does this one not see it either, and leave its sessions alone?
    POST ?held           sessions of which Redis has nothing: which of them are this one's all the same?

Whoever asks has a seal, and asks for nobody. What is passed on for a client has a seal too, but with the
client's name in it: no client comes here by way of a replica, whatever path it asks for.
"""

from collections.abc import Callable
from urllib.parse import parse_qs

from mooring.replicas.forwarding import HELD, NO, YES
from mooring.replicas.link_answering import AnsweringLink, Unread
from mooring.replicas.link_frames import SUBPROTOCOL
from mooring.replicas.membership import Membership
from mooring.replicas.seal import NOBODY, Seal
from mooring.wire.http import App, Exchange, Response

__all__ = ["Reception"]


class Reception:
    """`app` is whom calls on links are for. Each link ends with its socket, which is the listener's."""

    def __init__(
        self,
        app: App,
        seal: Seal,
        membership: Membership,
        *,
        holds: Callable[[], bool],
        tell_again: Callable[[str], bool],
    ) -> None:
        """`holds`: may we act for our sessions, and are we not about to let go of them? `tell_again`: is that
        one ours? Then Redis is told of it once more."""
        self._app = app
        self._seal = seal
        self._membership = membership
        self._holds = holds
        self._tell_again = tell_again
        self._links: set[AnsweringLink] = set()
        self._unread = Unread()
        self._is_hanging_up = False

    def take(self, exchange: Exchange) -> None:
        """One request."""
        request = exchange.request
        if self._seal.vouch(request) != NOBODY or request.method not in ("GET", "POST"):
            exchange.respond(Response(404))
            return
        if request.method == "GET":
            self._open_link(exchange)
            return
        if request.query == HELD:
            exchange.respond(Response(200, self._held_of(request.body)))
            return
        asked = parse_qs(request.query)
        if rest := asked.get("rest"):
            says = self._membership.promise_rest(rest[0])
        else:
            says = asked.get("holds", [""])[0] in self._membership.names and self._holds()
        exchange.respond(Response(200, b"yes" if says else b"no"))

    def _held_of(self, ids: bytes) -> bytes:
        return bytes(YES if self._tell_again(id) else NO for id in ids.decode("latin-1").split(" "))

    def _open_link(self, exchange: Exchange) -> None:
        socket = exchange.upgrade(SUBPROTOCOL)
        if socket is not None:
            vouch, discard = self._seal.vouch, self._links.discard
            link = AnsweringLink(socket, exchange.request, self._app, vouch, discard, unread=self._unread)
            self._links.add(link)
            if self._is_hanging_up:
                link.leave()

    def hang_up(self) -> None:
        """Whoever passes calls on to us by a link hears that no more are taken, and which were."""
        self._is_hanging_up = True
        for link in tuple(self._links):
            link.leave()
