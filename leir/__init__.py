"""LEIR, the Loop-Equation IR: tensor programs as loops and equations. See README.md for the language."""
