"""Evaluation of models and policies: one step at a state, and searches of many steps."""
