"""Every bound of a relay and of an agent, each with the reason for its default. Spans are in seconds."""

from dataclasses import dataclass

__all__ = ["AgentPolicy", "RelayPolicy"]


@dataclass(frozen=True, kw_only=True)
class RelayPolicy:
    """What a relay grants."""

    hello_s: float = 10.0
    """For the first envelope of an agent or a client: a slow handshake, and a lost packet."""
    grace_s: float = 30.0
    """For so long a lost link can be gone on with: a laptop that changes its network, a phone in a tunnel."""
    hold_s: float = 10.0
    """For so long a call waits for a lost link: most clients give up after a minute, users before."""
    probe_s: float = 10.0
    """For an agent to show that it is there, when another one wants its name."""
    acknowledge_s: float = 1.0
    """What came is told to the other end at the latest after this, so that it need not keep it. As often
    tokens are looked at."""

    max_agents: int = 10_000
    max_clients: int = 10_000
    max_streams_per_agent: int = 1000
    """Calls and open streams of one agent: each takes a connection at its workstation."""
    max_streams_per_client: int = 200
    max_servers_per_agent: int = 200
    max_body_bytes: int = 64 * 1024 * 1024
    """Of one request: as at a workstation."""
    max_waiting_bytes: int = 512 * 1024 * 1024
    """Of all bodies of requests that are not answered, and messages of WebSockets that are not passed on:
    eight of the largest. They are kept until then."""
    max_waiting_bytes_per_agent: int = 128 * 1024 * 1024
    """Two of the largest: an agent that takes nothing has no more of it."""

    lull_s: float = 1.0
    """At a drain: a stream of HTTP+SSE ends when nothing came on it for so long. Answers come on it to calls
    that nobody sees under way; most tools take less."""
    flush_s: float = 2.0
    """At a drain: for what is queued on the links."""
    spread_s: float = 3.0
    """At a drain: closes are spread over this, that not all come back at once. Fewer take less time."""
    spread_each_s: float = 0.002
    goodbye_s: float = 5.0
    """For a peer to answer our close."""
    return_s: float = 4.0
    """When the relay is there again: agents come back spread over this. Fewer take less time."""
    return_each_s: float = 0.002


@dataclass(frozen=True, kw_only=True)
class AgentPolicy:
    """What an agent does about its link."""

    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    """Each delay is anything between nothing and twice as long as the one before could be (full jitter):
    after a relay's restart, thousands come back spread evenly."""
    longest_asked_s: float = 600.0
    """What a relay asks for, or a proxy in front of it, is the least delay, up to this."""
    stable_s: float = 60.0
    """A link that held for so long was good: the next delay is the first one again."""
    max_conflicts: int = 8
    """So often in a row the name may be another's"""
    conflicts_s: float = 30.0
    """and for so long: our own ghost is gone by then, as a relay gives it 10 s to answer. Changes of network
    make many attempts of a moment."""
    welcome_s: float = 15.0
    """For the relay's answer to our hello: it may have to ask an incumbent first."""
    ping_s: float = 15.0
    """How often the distance is measured."""
    probe_s: float = 3.0
    """After a change of network: if the relay does not answer within this, the link is given up."""
    token_s: float = 10.0
    """For the token to be read: a keyring may wait for its user."""
    goodbye_s: float = 2.0
    """For the relay to hear our goodbye."""
    local_s: float = 10.0
    """For a local server's port to be there: a daemon that is being restarted."""
    max_body_bytes: int = 64 * 1024 * 1024
    max_waiting_bytes: int = 256 * 1024 * 1024
    """Of all bodies and messages that wait here: less than at a relay, which many share."""
    max_waiting_bytes_per_caller: int = 128 * 1024 * 1024
    """Two of the largest, as the relay lets one agent have."""
    max_streams: int = 1000
