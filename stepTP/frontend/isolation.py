"""What a file changes in PyTorch and in the process as it runs is undone for the next one.

That is for accidents: a default dtype, another directory, a method that was replaced. It is no sandbox.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_PLACES = (torch, torch.Tensor, torch.nn, torch.nn.functional, torch.nn.Module)


@contextmanager
def as_it_was() -> Iterator[None]:
    """On the way out, default dtype, directory, environment and replaced functions are as on the way in."""
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    directory, environment = Path.cwd(), dict(os.environ)
    functions = [{name: value for name, value in vars(place).items() if callable(value)} for place in _PLACES]
    try:
        yield
    finally:
        for place, before in zip(_PLACES, functions, strict=True):
            now = dict(vars(place))
            for name, value in before.items():
                if now.get(name) is not value:
                    setattr(place, name, value)
            if isinstance(place, type):  # what hides a method of a base; a module may grow as it imports
                for name in now:
                    if callable(now[name]) and name not in before:
                        delattr(place, name)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        os.chdir(directory)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
