"""What a relay counts. No value of a label names anybody."""

from mooring.relay.meters import Counters, Family

__all__ = ["make_counters"]


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
            Family("agents_replaced_total", "Agents that did not answer when another wanted their name."),
            Family("bad_envelopes_total", "Envelopes that could not be understood."),
            Family(
                "slowed_total", "Sockets that were not read for a while, as their token had sent too much."
            ),
        ]
    )
