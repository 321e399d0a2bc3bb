"""`mooring secret`."""
