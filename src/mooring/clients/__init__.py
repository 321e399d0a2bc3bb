"""Other programs' configuration files: how an entry of ours gets into them, and out again."""
