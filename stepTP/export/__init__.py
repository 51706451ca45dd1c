"""Training files from a run, one format a trainer: `formats` makes the examples, `tools` says what each tool documents.

A file holds one example a line. Prompts are those of `stepTP.prompt` and answers those of `stepTP.answer`: what a model
is trained on is what it is asked and how it is judged.
"""
