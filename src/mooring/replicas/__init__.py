"""One server on many machines: what replicas of it share, and how a request finds the one that has its
session.

A session belongs to one replica, its *owner*, which has the child; every other passes requests on to it
(`front`, `passing`): over a connection for each (`forwarding`), or small ones together on a link (`errands`,
`links`). Who owns what is in Redis (`records`, `shared_store`); that an owner lives is a lease of the
replica's (`lease`, `membership`), not of each session. `docs/scaling.md` has the promises, `docs/adr/0019`
and `0021` the reasons.
"""
