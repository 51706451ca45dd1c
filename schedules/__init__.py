"""Whole optimisations as trajectories of steps: from a plain program to a schedule that is fast on a GPU.

The `trajectory(...)` of each module takes the sizes and the tiles, and gives the plain program with every step and
state on the way. Nothing is written by hand but the order of the steps.
"""

NAMES = ("attention", "convolution", "layer_norm", "matmul", "softmax", "transpose")
