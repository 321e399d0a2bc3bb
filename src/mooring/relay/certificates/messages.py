"""What an ACME authority says (RFC 8555, 7.1), as values; only what we need of it. Pure."""

import re
from typing import TypeVar

import msgspec

__all__ = [
    "HTTP_01",
    "TLS_ALPN_01",
    "Account",
    "Authorization",
    "Directory",
    "Offer",
    "Order",
    "Problem",
    "decoded",
    "one_line",
]

HTTP_01, TLS_ALPN_01 = "http-01", "tls-alpn-01"
WORDS_CHARACTERS = 400
"""Of what an authority says to people: a line or two of ours."""
_ERROR = "urn:ietf:params:acme:error:"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,256}")
"""It becomes part of a path, and of what is signed."""

T = TypeVar("T")


class Problem(msgspec.Struct, frozen=True):
    """Why something did not work, in the authority's own words (RFC 7807)."""

    type: str = "about:blank"
    detail: str = ""
    subproblems: list["Problem"] = []

    @property
    def kind(self) -> str:
        """`rateLimited`, `unauthorized`, …; as it came, if it is none of ACME's."""
        return self.type.removeprefix(_ERROR)

    @property
    def words(self) -> str:
        """For people, in one line."""
        details = [self.detail, *(part.detail for part in self.subproblems)]
        told = list(dict.fromkeys(filter(None, map(one_line, details))))
        return "; ".join(told)[:WORDS_CHARACTERS] or one_line(self.kind)


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """What an authority tells of itself."""

    terms_of_service: str = ""
    external_account_required: bool = False


class Directory(msgspec.Struct, frozen=True, rename="camel"):
    """Where to ask for what."""

    new_nonce: str
    new_account: str
    new_order: str
    meta: Meta = Meta()


class Account(msgspec.Struct, frozen=True):
    """Ours."""

    status: str = "valid"


class Order(msgspec.Struct, frozen=True):
    """A certificate that was asked for."""

    status: str
    finalize: str
    authorizations: list[str] = []
    certificate: str | None = None
    error: Problem | None = None


class Offer(msgspec.Struct, frozen=True):
    """One way to show that a domain is ours."""

    type: str
    url: str = ""
    token: str = ""
    status: str = "pending"
    error: Problem | None = None


class _Identifier(msgspec.Struct, frozen=True):
    value: str
    type: str = "dns"


class Authorization(msgspec.Struct, frozen=True):
    """What the authority thinks about us and one domain."""

    status: str
    identifier: _Identifier
    challenges: list[Offer] = []

    def offer(self, kind: str) -> Offer | None:
        """The challenge of that kind, if there is a usable one."""
        found = (offer for offer in self.challenges if offer.type == kind and offer.url)
        return next((offer for offer in found if _TOKEN.fullmatch(offer.token)), None)

    @property
    def problem(self) -> Problem | None:
        """Why it was refused, if it was."""
        return next((offer.error for offer in self.challenges if offer.error is not None), None)


def decoded(data: bytes, kind: type[T]) -> T | None:
    """None: it is something else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def one_line(words: str) -> str:
    """What others say to people, so that it can do nothing to a terminal or a log."""
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())[:WORDS_CHARACTERS]
