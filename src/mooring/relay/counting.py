"""What a relay counts. No value of a label names anybody."""

from mooring.relay.closing import CODES
from mooring.relay.meters import Counters, Family

__all__ = ["code_label", "make_counters"]

_CODES = tuple(str(code) for code in sorted(CODES))


def code_label(code: int) -> str:
    """Of the code with which a link was closed: by us, or by whoever says any number that it likes."""
    return str(code) if code in CODES else "other"


def make_counters() -> Counters:
    """All at 0."""
    return Counters(
        [
            Family(
                "upgrades_total",
                "WebSockets that were asked for.",
                {
                    "kind": ("agent", "client"),
                    "outcome": (
                        "accepted",
                        "resumed",
                        "not_resumed",
                        "bad_token",
                        "not_allowed",
                        "name_held",
                        "no_such_server",
                        "too_many",
                        "rate_limited",
                        "protocol_error",
                        "draining",
                        "left",
                    ),
                },
            ),
            Family(
                "calls_total",
                "Requests of callers, by what became of them.",
                {
                    "outcome": (
                        "passed_on",
                        "bad_request",
                        "bad_token",
                        "not_allowed",
                        "no_such_server",
                        "agent_absent",
                        "too_many",
                        "too_large",
                        "rate_limited",
                        "draining",
                    )
                },
            ),
            Family(
                "links_lost_total",
                "Links whose socket was lost without a word.",
                {"kind": ("agent", "client")},
            ),
            Family(
                "links_closed_total",
                "Sockets of links that have ended, by the code with which either end closed them.",
                {"kind": ("agent", "client"), "code": (*_CODES, "other")},
            ),
            Family("agents_replaced_total", "Agents that did not answer when another wanted their name."),
            Family("bad_envelopes_total", "Envelopes that could not be understood."),
            Family(
                "stray_envelopes_total",
                "Envelopes for connections that are over, as some always are, or that never were.",
            ),
            Family(
                "slowed_total", "Sockets that were not read for a while, as their token had sent too much."
            ),
        ]
    )
