"""Expert rules, a module for what nests compute; `plans` puts them together."""
