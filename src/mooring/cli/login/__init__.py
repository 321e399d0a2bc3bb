"""`mooring login` and `logout`: tokens for servers elsewhere that ask who their user is."""
