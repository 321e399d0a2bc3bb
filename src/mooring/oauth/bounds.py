"""Every bound of the OAuth client, each with the reason for its value."""

__all__ = [
    "KEEP_WAITING_S",
    "LOCK_S",
    "LOGIN_S",
    "MARGIN_S",
    "MAX_ANSWER_BYTES",
    "MAX_LIFETIME_S",
    "MAX_TEXT_CHARACTERS",
    "MAX_WORDS_CHARACTERS",
    "MOST_ADDRESSES",
    "MOST_CHALLENGES",
    "MOST_ISSUERS",
    "MOST_REDIRECTS",
    "MOST_ROUNDS",
    "MOST_SCOPES",
    "MOST_STRAYS",
    "PATIENCE_S",
    "RECENT_S",
    "REQUEST_S",
    "REST_S",
]

MAX_ANSWER_BYTES = 256 * 1024
"""Of a metadata document or a token answer; those of large providers have some 10 KiB."""
MAX_TEXT_CHARACTERS = 16 * 1024
"""Of one value in it: a token, an address. Tokens with many claims have some 4 KiB."""
MAX_WORDS_CHARACTERS = 200
"""Of what an authorization server says to people: it stands in one line of ours."""
MAX_LIFETIME_S = 10 * 365 * 86400
"""Of a token; a number beyond that would be no date any more."""
MOST_SCOPES = 100
"""In one list."""
MOST_CHALLENGES = 16
"""In the WWW-Authenticate fields of one answer."""
MOST_ISSUERS = 4
"""Authorization servers of one MCP server that are tried."""
MOST_ADDRESSES = 8
"""Of one name that are looked at; a name with more is cut."""
MOST_REDIRECTS = 3
"""Of one metadata document; http to https and an added www are two."""
MOST_STRAYS = 20
"""Answers that belong to no login of ours, while one waits for its own."""
MOST_ROUNDS = 2
"""Of one login: the second with a new registration, if the first one's is not known any more."""

REQUEST_S = 20.0
"""For one request, from the name to the end of its body."""
LOGIN_S = 300.0
"""For a person: to find the browser, the password and the second factor."""
LOCK_S = 60.0
"""For another process that renews the same token: twice what its requests may take, and a bit."""
KEEP_WAITING_S = 2.0
"""For the browser to read our page before the listener is closed."""
MARGIN_S = 60.0
"""A token is renewed so long before it expires: clocks differ, and a call takes a while."""
RECENT_S = 10.0
"""A token obtained so shortly ago is tried before another is asked for: its predecessor was refused."""
PATIENCE_S = 3.0
"""A request waits so long for another token while its own is still good."""
REST_S = 5.0
"""After a refresh that failed: before the next one."""
