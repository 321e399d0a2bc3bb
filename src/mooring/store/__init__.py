"""What survives a restart: desired state, ownership, sessions, history. Nothing of supervision."""
