"""What can go wrong with an engine, each with its remedy.

    no_engine              UserError      none of the usual sockets is there
    engine_forbidden       UserError      it is there, but not for us
    engine_unsupported     UserError      reached in a way that is not supported
    engine_unreachable     Unavailable    it does not answer, or not as one should: later it may
    image_missing          UserError      nowhere to be had under that name, or not to be pulled
    pull_failed            Unavailable    it could not be brought: the network, the registry
    wrong_architecture     UserError      the image is for another kind of machine
    engine_refused         ServerFailed   whatever else the engine says

Only `Refusal.is_no_such_container` is a definite not-found.
"""

from collections.abc import Sequence

from mooring.errors import ServerFailed, Unavailable, UserError

__all__ = [
    "Refusal",
    "Silence",
    "container_vanished",
    "engine_forbidden",
    "engine_unreachable",
    "engine_unsupported",
    "image_missing",
    "no_engine",
    "pull_failed",
    "wrong_architecture",
]

REFUSED = 400
NOT_FOUND = 404
_WORDS_CHARACTERS = 500


class Refusal(ServerFailed):
    """An engine has answered, and said no."""

    def __init__(self, doing: str, status: int, words: str) -> None:
        words = " ".join(words.split())[:_WORDS_CHARACTERS]
        super().__init__(
            f"{doing}: the container engine refuses: {words or status}",
            code="engine_refused",
            hint="what it says tells more; the log of the engine, too",
        )
        self.status = status
        self.words = words

    @property
    def is_no_such_container(self) -> bool:
        """It is not there. A 404 alone may come from a proxy, or for a path that is not known."""
        return self.status == NOT_FOUND and "no such container" in self.words.lower()

    @property
    def is_no_such_image(self) -> bool:
        """The same of an image."""
        words = self.words.lower()
        return self.status == NOT_FOUND and ("no such image" in words or "image not known" in words)


class Silence(Unavailable):
    """An engine has taken a request, and says nothing to it: whether it goes on with it, nobody knows."""

    def __init__(self, where: str, seconds: float) -> None:
        known = engine_unreachable(where, f"no answer in {seconds:g} s")
        super().__init__(known.message, code=known.code, hint=known.hint, retry_after_s=known.retry_after_s)
        self.seconds = seconds


def no_engine(wanted: str, looked_at: Sequence[str]) -> UserError:
    """None was found."""
    where = ", ".join(looked_at) or "nowhere"
    what = "container engine" if wanted == "auto" else f"container engine ({wanted})"
    return UserError(
        f"there is no {what}: looked at {where}",
        code="no_engine",
        hint="install and start Docker (https://docs.docker.com/engine/install) or Podman "
        "(systemctl --user start podman.socket), or name its socket: --engine SOCKET",
    )


def engine_forbidden(where: str) -> UserError:
    """Its socket is there, and belongs to others."""
    return UserError(
        f"the container engine at {where} may not be used by this user",
        code="engine_forbidden",
        hint="join the group of the socket (sudo usermod -aG docker $USER, then log in again), "
        "or use a rootless engine",
    )


def engine_unsupported(where: str, source: str) -> UserError:
    """ssh:// and the like."""
    return UserError(
        f"{source} names the container engine {where}, which cannot be reached that way",
        code="engine_unsupported",
        hint="forward its socket (ssh -NL /tmp/engine.sock:/var/run/docker.sock HOST) and name that: "
        "--engine /tmp/engine.sock",
    )


def engine_unreachable(where: str, why: str) -> Unavailable:
    """It does not answer."""
    return Unavailable(
        f"the container engine at {where} does not answer: {why}",
        code="engine_unreachable",
        hint="start it again; what ran in it is brought back by itself",
        retry_after_s=1.0,
    )


def container_vanished(name: str) -> Unavailable:
    """Somebody clears away what does not run, and has met one that was about to."""
    return Unavailable(
        f"{name}: somebody has removed its container before it could be started",
        code="engine_unreachable",
        hint="another is made; if it happens again, look who removes containers: docker container prune?",
        retry_after_s=0.5,
    )


def image_missing(name: str, image: str, why: str) -> UserError:
    """It is not here, and cannot be had."""
    return UserError(
        f"{name}: the image {image} is not there: {why}",
        code="image_missing",
        hint=f"check its name; if it is private, log in and pull it yourself: docker pull {image}",
    )


def pull_failed(name: str, image: str, why: str) -> Unavailable:
    """It could not be brought, this time."""
    return Unavailable(
        f"{name}: the image {image} could not be pulled: {why}",
        code="pull_failed",
        hint="is its registry reachable from the engine? With the image already there: --pull never",
        retry_after_s=10.0,
    )


def wrong_architecture(name: str, image: str, why: str) -> UserError:
    """It is for another kind of machine."""
    return UserError(
        f"{name}: the image {image} does not run on this machine: {why}",
        code="wrong_architecture",
        hint="choose an image for this architecture, or let the engine emulate: "
        "docker run --privileged --rm tonistiigi/binfmt --install all",
    )
