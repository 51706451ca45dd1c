"""Policies, a module each."""
