"""Searches, a module each."""
