"""Agents: registration, heartbeats, inventory, the calls to them, selectors resolved."""
