"""A run on one HTML page that needs no network: `figures` counts, `charts` draws, `page` puts it together.

`marks` sets two programs side by side, for the page and for the terminal.
"""
