"""Mooring's HTTP client beside aiohttp and pyreqwest, in one run: `python -m bench.http_clients`.

Each client is a process of its own on uvloop (`worker`), aimed at one server in another (`server`), in turn
and for several rounds; the best of each counts, as everywhere in this benchmark. What was found is in
docs/adr/0016-http-client.md.
"""
