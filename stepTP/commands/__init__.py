"""The commands of `steptp`, a module a group.

Heavy imports stand inside the commands, so that help and lists come at once.
"""
