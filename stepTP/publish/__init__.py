"""A run as a dataset that others load: Parquet with explicit features, a card, and the way to the hub.

features  the columns of each row shape, and rows to columns and back
folder    the published folder, written and read
card      its README.md
hub       the upload
"""
