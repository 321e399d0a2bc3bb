"""`mooring doctor`."""
