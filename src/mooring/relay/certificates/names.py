"""Which domains can be asked for, and as whom. Pure.

What only the authority can know (is it a public name, does it lead here) is left to the authority.
"""

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from mooring.errors import UserError

__all__ = ["check_authority_url", "check_domains", "check_email"]

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_EMAIL = re.compile(r"[!-~]+@[!-~]+")
NAME_CHARACTERS = 253
"""What DNS has room for."""


def check_domains(domains: Iterable[str], most: int) -> tuple[str, ...]:
    """In lower case, each once, in their order. Raises UserError."""
    found = tuple(dict.fromkeys(_checked(domain) for domain in domains))
    if not found:
        raise _bad("there is no domain to get a certificate for", "give one: --domain relay.example.com")
    if len(found) > most:
        raise _bad(f"one certificate is for at most {most} domains; these are {len(found)}", "give fewer")
    return found


def check_email(email: str | None) -> str | None:
    """Raises UserError."""
    if email is None:
        return None
    # A comma or a question mark would make it another kind of address (RFC 8555, 7.3).
    if not _EMAIL.fullmatch(email) or email.count("@") != 1 or set(email) & set(",?;<>"):
        raise UserError(
            f"{email!r} is not an e-mail address that an authority takes",
            code="bad_email",
            hint="give one such as admin@example.com, or none",
        )
    return email


def check_authority_url(url: str) -> str:
    """Raises UserError."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme == "https" and bool(parts.hostname) and not parts.fragment
    except ValueError:
        is_good = False
    if not is_good:
        raise UserError(
            f"{url!r} is not the address of an ACME directory",
            code="bad_acme_directory",
            hint="give an https:// URL: such authorities are spoken to by TLS only",
        )
    return url


def _checked(domain: str) -> str:
    name = domain.strip().lower().removesuffix(".")
    if not name.isascii():
        raise _bad(f"{domain!r} is not ASCII", "give the form that DNS has, with xn--")
    if name.startswith("*."):
        raise _bad(
            f"{domain} stands for many names: authorities want a DNS record for that, which we cannot set",
            "give each name with a --domain of its own, or a certificate from elsewhere with --tls-cert",
        )
    if _is_address(name):
        raise _bad(f"{domain} is an address", "give a name that leads to it: --domain relay.example.com")
    if len(name) > NAME_CHARACTERS or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise _bad(f"{domain!r} is not a domain name", "give one such as relay.example.com, without a scheme")
    return name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _bad(message: str, hint: str) -> UserError:
    return UserError(message, code="bad_domain", hint=hint)
