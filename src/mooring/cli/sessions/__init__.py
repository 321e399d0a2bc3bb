"""`mooring sessions`: the sessions that replicas share in Redis, for people who look after them."""
