"""Real engines for tests, and images made without a download."""
