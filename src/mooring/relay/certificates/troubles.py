"""What can go wrong with an authority, told apart by what can be done about it. Pure.

| code | |
|---|---|
| `authority_unreachable` | there is no connection to it, or no answer |
| `authority_not_trusted` | who answers there cannot show that it is the authority |
| `authority_failed` | it answers, but not as it should |
| `authority_slow` | it does not come to an end |
| `authority_rate_limited` | it has done enough for us for now; says until when |
| `account_refused` | it does not want us: terms, e-mail address, an invitation that is missing |
| `domain_refused` | it signs nothing for this domain |
| `challenge_failed` | it looked, and did not find us where the domain leads |
| `challenge_not_offered` | it wants to see something that we cannot show |
| `clock_wrong` | it is another time there than here |
"""

from datetime import UTC, datetime

from mooring.errors import MooringError, Unavailable, UserError
from mooring.http.client_errors import AnswerLost, NotSent, NotTrusted
from mooring.relay.certificates.messages import HTTP_01, Problem

__all__ = [
    "challenge_failed",
    "challenge_not_offered",
    "clock_wrong",
    "failed",
    "refused",
    "shown_time",
    "slow",
    "unreachable",
]

TOO_MANY_REQUESTS, SERVER_ERROR = 429, 500
_ABOUT_DOMAIN = frozenset({"rejectedIdentifier", "unsupportedIdentifier", "caa"})
ANOTHER_ACCOUNT = "remove account-….json, which is beside the certificate: another account is made then"
_ABOUT_ACCOUNT = {
    "accountDoesNotExist": ANOTHER_ACCOUNT,
    "externalAccountRequired": "it signs for its customers only: choose another with --acme-directory",
    "invalidContact": "give another address with --acme-email, or none",
    "unauthorized": ANOTHER_ACCOUNT,
    "unsupportedContact": "give another address with --acme-email, or none",
    "userActionRequired": "its terms have changed: read what it says, and agree to it there",
}
_CLOCK_WORDS = ("not yet valid", "has expired")
CLOCK_HINT = "set the clock of this machine, and have it kept right: timedatectl set-ntp true"


def unreachable(url: str, error: NotSent | AnswerLost) -> MooringError:
    """It could not be asked, or did not answer."""
    if isinstance(error, NotTrusted):
        is_clock = any(words in error.message for words in _CLOCK_WORDS)
        return UserError(
            f"the authority {url} is not trusted: {error.message}",
            code="authority_not_trusted",
            hint=f"is the clock right? {CLOCK_HINT}"
            if is_clock
            else "if it is your own, give the file of whoever signed its certificate: --acme-ca-file PATH",
        )
    return Unavailable(
        f"the authority {url} cannot be reached: {error.message}",
        code="authority_unreachable",
        hint=error.hint or "is there a way to it from here? A proxy is named by HTTPS_PROXY",
    )


def refused(problem: Problem, status: int, retry_after_s: float | None) -> MooringError:
    """It answered with an error."""
    kind, words = problem.kind, problem.words
    if kind == "rateLimited" or status == TOO_MANY_REQUESTS:
        return Unavailable(
            f"the authority has done enough for us for now: {words}",
            code="authority_rate_limited",
            hint="it is asked again when it allows that; to try things out, use a test authority",
            retry_after_s=retry_after_s,
        )
    if kind in _ABOUT_DOMAIN:
        return _domain_refused(problem)
    if kind in _ABOUT_ACCOUNT:
        return UserError(
            f"the authority refuses the account: {words}", code="account_refused", hint=_ABOUT_ACCOUNT[kind]
        )
    return failed(f"{words} (HTTP status {status})", retry_after_s)


def failed(words: str, retry_after_s: float | None = None) -> MooringError:
    """It answers, but not as it should."""
    return Unavailable(
        f"the authority could not do it: {words}",
        code="authority_failed",
        hint="it is tried again by itself; if that does not help, ask those who run the authority",
        retry_after_s=retry_after_s,
    )


def slow(what: str, timeout_s: float) -> MooringError:
    """It does not come to an end."""
    return Unavailable(
        f"the authority has not {what} within {timeout_s:g} s",
        code="authority_slow",
        hint="it is tried again by itself",
    )


def challenge_failed(domain: str, kind: str, problem: Problem | None) -> MooringError:
    """It looked at the domain, and did not see us."""
    if problem is not None and problem.kind in _ABOUT_DOMAIN:
        return _domain_refused(problem)
    words = problem.words if problem is not None else "it does not say why"
    if problem is not None and problem.kind == "dns":
        hint = f"have a DNS record (A or AAAA) that leads {domain} to this machine"
    elif kind == HTTP_01:
        hint = (
            f"port 80 of {domain} must lead to this relay, from everywhere: look at DNS, firewall and router"
        )
    else:
        hint = f"port 443 of {domain} must lead to this relay, and nobody on the way may end TLS"
    return Unavailable(
        f"the authority did not find this relay at {domain} ({kind}): {words}",
        code="challenge_failed",
        hint=hint,
    )


def challenge_not_offered(domain: str, kind: str) -> MooringError:
    """It wants to see something else."""
    return UserError(
        f"the authority does not offer {kind} for {domain}",
        code="challenge_not_offered",
        hint="choose another challenge, or another authority with --acme-directory",
    )


def clock_wrong(ours: float, theirs: float) -> MooringError:
    """Certificates are about time."""
    return UserError(
        f"it is {shown_time(ours)} here, and {shown_time(theirs)} at the authority",
        code="clock_wrong",
        hint=CLOCK_HINT,
    )


def shown_time(at: float) -> str:
    """For people, and the same everywhere."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{at:.0f} s after 1970"


def _domain_refused(problem: Problem) -> MooringError:
    hint = (
        "a CAA record of the domain names who may sign for it: have it name this authority too"
        if problem.kind == "caa"
        else "give a public domain of your own with --domain"
    )
    return UserError(
        f"the authority signs nothing for this domain: {problem.words}", code="domain_refused", hint=hint
    )
