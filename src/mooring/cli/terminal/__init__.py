"""How things look on a terminal, and how logs get there."""
