"""Reads the step back from a reasoning text."""
