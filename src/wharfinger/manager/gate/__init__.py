"""The interlock: what is being prepared where, so that nobody builds on it meanwhile."""
