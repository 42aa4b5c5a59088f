"""Users, tokens, roles, and who may do what."""
