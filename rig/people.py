"""Users that tests speak for."""

from wharfinger.manager.access.principal import Principal, Role

ROOT = Principal("u-root", "root", Role.SUPERADMIN)
"""A superadmin, whom transactions need not find in the database."""
