"""`mooring relay`."""
