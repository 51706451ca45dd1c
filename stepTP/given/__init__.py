"""Programs that people give: files in KernelBench's form, whose sizes are constants at their top."""
