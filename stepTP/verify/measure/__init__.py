"""Measured latency of verified programs; README.md beside this file says how and against what."""
