"""Attempts: what preloads and sessions share of making an image present."""
