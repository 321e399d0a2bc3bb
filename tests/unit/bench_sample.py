"""A run of the benchmark as it could have been, for the tests of what is made of it."""

from collections.abc import Mapping

from bench.results import TARGETS, Results, Row, row

MACHINE = {
    "cores": "2",
    "cpu": "AMD EPYC",
    "memory": "8.3 GB",
    "kernel": "Linux 6.8.0",
    "python": "CPython 3.11.7",
}

# Row -> figures in the order of TARGETS; a row that ends early was measured of those targets only.
_FIGURES: dict[str, tuple[float | None, ...]] = {
    "seq_p50": (0.19, 0.15, 0.081, 1.28, 2.88, 0.8, 0.8),
    "seq_p99": (0.41, 0.36, 0.16, 1.9, 4.71, 3.77, 4.68),
    "rate_1s": (30250, 43250, 877699, 912, 327, 1324, 1923),
    "rate_1s_pychild": (22100, 25400, 60923, 840, 311, 1190, 1702),
    "rate_32s": (29100, 43408, None, 917, 334, 1125, 1702),
    "cpu_per_call": (34.2, 25, None, 1214, 3470, 1061, 711),
    "start": (0.21, 0.13, 0.004, 0.69, 1.64, 0.8, 0.64),
    "rss_50": (29.7, 26.6, None, 58.5, 92.4, 243, 143),
    "rss_per_session": (14.2,),
    "rss_1000_stateless": (48.1,),
    "echo_1m": (5.4, 5.7, 1.9, 15.1, 21.4, None, 30.9),
    "line_20m": (0.17, 0.14, 0.05, 4.4, 4.4, 6, None),
    "death_error": (1.6, 1, None, 3, 250, 5, 4),
    "sigterm_lost": (0, 0, None, 0, 1, 1, 1),
    "cost_1": (31.0,),
    "cost_32": (33.5,),
    "cost_100": (33.9,),
    "cost_300": (34.0,),
    "cost_1000": (35.1,),
    "cpu_handshake": (34.0,),
    "cpu_to_modern": (46.0,),
    "cpu_modern": (48.0,),
    "cpu_to_handshake": (60.0,),
    "cpu_32s": (50.0,),
    "cpu_shared": (50.5,),
    "cpu_daemon": (34.5,),
    "rss_daemon": (38.2,),
    "idle_processes": (0,),
    "ls": (121,),
    "crash_loops": (95,),
    "edit_69k": (41,),
    "container_p50": (0.205, 0.3, 0.2),
    "container_10ms": (10.2, 10.3, 10.0),
    "container_error": (41,),
    "rss_containers": (40.1,),
    "remote_p50": (0.5, 0.1, None, None, 87.8),
    "remote_event": (0.46, 0.1, None, None, 91.5),
    "remote_rate": (3500, 16000, None, None, 9.4),
    "remote_growth": (0.4,),
    "relay_rate": (16000, 4500),
    "relay_calls": (8400, 4500),
    "relay_cpu": (53, 152),
    "relay_p50": (0.9, 0.2),
    "relay_p99": (4.1, 1.0),
    "relay_idle": (9.6,),
    "relay_growth": (0.7,),
    "relay_herd": (8.8,),
    "relay_peak": (1.3,),
    "replica_p50_alone": (0.1,),
    "replica_p50": (0.102,),
    "replica_p50_elsewhere": (0.2,),
    "replica_cpu_alone": (20.0,),
    "replica_cpu": (20.5,),
    "replica_cpu_elsewhere": (45.0,),
    "replica_one": (40_000,),
    "replica_three": (24_000,),
    "replica_one_few": (40_000,),
    "replica_three_few": (25_000,),
    "replica_commands": (0,),
    "replica_commands_elsewhere": (0,),
    "replica_batches": (0.02,),
    "replica_event_redis": (3.1,),
    "replica_session": (0.9,),
    "replica_write_redis": (21.0,),
    "replica_find_redis": (9.0,),
    "replica_ls": (2.1,),
    "replica_ls_pause": (3.0,),
    "replica_ls_command": (0.3,),
    "replica_takeover": (900.0,),
    "replica_takeover_redis": (80.0,),
    "help_ratio": (5.2,),
    "instructions": (181234,),
    "generator_share": (38, 55),
}
_NOTES = {
    "echo_1m": {"supergateway": "answers 413"},
    "line_20m": {"npm-mcp-proxy": "loses its server for good"},
}


def sample_run(**changed: Mapping[str, float | None] | None) -> Results:
    """The sample; keywords give other figures to targets of a row, or take the whole row out (None)."""
    rows = [
        _row(row_id, changed.get(row_id) or {}) for row_id in _FIGURES if changed.get(row_id, {}) is not None
    ]
    return Results("2026-11-15T12:00:00Z", dict(MACHINE), "0123abc", list(TARGETS), rows)


def _row(row_id: str, changed: Mapping[str, float | None]) -> Row:
    values = dict(zip(TARGETS, _FIGURES[row_id], strict=False))
    return row(row_id, values | dict(changed), _NOTES.get(row_id))
