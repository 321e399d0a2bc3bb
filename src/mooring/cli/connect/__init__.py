"""`mooring connect`."""
