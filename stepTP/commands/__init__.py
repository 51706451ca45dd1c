"""The commands of `steptp`, a module a group. Heavy imports stand inside the commands: `--help` and lists start at once."""
