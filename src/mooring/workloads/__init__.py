"""A named server as the user asked for it, with all its parts put together.

Owns the use-cases: run a workload, report on it, drain it, stop it.

Does not know HTTP requests or argv.
"""
