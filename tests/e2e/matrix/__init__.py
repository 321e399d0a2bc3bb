"""Every client revision at every server revision, on every transport: what works.

    python -m tests.e2e.matrix [--write]

Tries them all, a minute or two, and prints the table; `--write` makes docs/compatibility.md of it. The same
is a test (`test_matrix.py`), a part of it in the normal suite.
"""
