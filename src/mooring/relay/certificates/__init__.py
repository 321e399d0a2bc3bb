"""The relay's own TLS certificate, from an ACME authority (RFC 8555), and renewed in time.

    entrance      where the rest of the relay comes in; says what to install if it is missing
    keeper        Certificates: had, kept, renewed in time
    status        what is told of it (pure)
    ordering      one order, step by step
    authority     requests to the authority: nonces, signatures, bounds
    troubles      what can go wrong there, in words
    answers       what the authority asks us to show on port 80 (HTTP-01) and 443 (TLS-ALPN-01)
    door          the TLS context of the listener: whose certificate is shown in which handshake
    client_hello  what a client offers, before TLS itself has looked at it (pure)
    signing       the key of our account, and certificates to be signed
    issued        a certificate with its key, as it is kept
    shelf         what is kept: accounts, and the certificate
    folder        its files, for us alone
    messages      what the authority says, as values (pure)
    names         which domains and addresses can be asked for (pure)
    policy        when, how often, how long (pure)

`signing` and `issued` need the package `cryptography` (the extra `acme`); nothing outside of
this package does. Why it is no library: docs/adr/0018-acme.md.
"""
