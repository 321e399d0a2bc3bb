"""The same engines as in tests/containers."""

from tests.containers.conftest import kind, real_engine

__all__ = ["kind", "real_engine"]
