"""Verification: does a program compute what its PyTorch source computes? See README.md."""
