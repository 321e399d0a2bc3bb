"""What Mooring's relay is measured beside, and with: a plain relay, its agent, and those who call."""
