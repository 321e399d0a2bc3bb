"""Tokens for MCP servers elsewhere that ask for a login: an OAuth 2.1 client, as MCP's authorization says.

Discovery follows RFC 9728 and RFC 8414, registration RFC 7591, the login is an authorization code with PKCE
(S256), a `resource` (RFC 8707) and a checked `iss` (RFC 9207); `logout` revokes by RFC 7009.

The state of a server's login, which is in the state folder and nowhere else:

    none ──login──▶ granted ──refresh──▶ granted
                       │ the authorization server refuses the refresh, or there was none to try
                       ▼
                  login needed ──login──▶ granted          logout leads from anywhere to none

Who owns what:
- `keeping.Shelf` owns what is on disk (or in the keyring): one grant for each server, one registration for
  each authorization server. Whoever changes a grant holds its lock, across processes.
- `fetching.Fetcher` owns every request to an address that somebody else named, and checks each.
- `redirect.Callback` owns the listener on 127.0.0.1, for the time of one login.
- `credentials.OAuthCredentials` owns the token in memory, and the one refresh that may be under way.

Pure, and without a clock of their own: `addresses`, `challenges`, `metadata`, `proof`, `answers`, `grants`.
Does not know MCP sessions, the daemon or the command line; never sends a token anywhere but to its server.
"""
