"""When two files write one program: the text with its own names numbered and its sizes left out.

What stays is what a program does: its calls, its settings (kernel sizes, strides, axes, probabilities) and its order.
"""

import ast
import hashlib

from stepTP.given.fit import is_structure

_KEPT = ("Model", "get_inputs", "get_init_inputs", "forward", "__init__", "self", "super", "torch", "nn", "F")
_GIVING = ("get_inputs", "get_init_inputs")  # their numbers are shapes
_SMALL = 2  # axes and flags: no sizes


def normal_form(code: str) -> str:
    """SHA-256 of the program without names, sizes and comments. Raises SyntaxError and ValueError for no Python."""
    tree = ast.parse(code)
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                if not is_structure(name):
                    _leave_sizes_out(value)
            case ast.FunctionDef(name) if name in _GIVING:
                _leave_sizes_out(statement)
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    own = _own_names(tree)
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        for field in ("id", "arg", "name", "attr"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name in own and not isinstance(node, ast.keyword):
                setattr(node, field, numbers.setdefault(name, f"v{len(numbers)}"))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _leave_sizes_out(node: ast.AST) -> None:
    for below in ast.walk(node):
        if isinstance(below, ast.Constant) and type(below.value) is int and below.value > _SMALL:
            below.value = 0


def _own_names(tree: ast.Module) -> dict[str, None]:
    """What the file itself binds: variables, arguments, functions, classes and attributes of self."""
    own: dict[str, None] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Store()) | ast.arg(name) | ast.FunctionDef(name) | ast.ClassDef(name):
                own[name] = None
            case ast.Attribute(_, name, ast.Store()):
                own[name] = None
            case _:
                pass
    return {name: None for name in own if name not in _KEPT}
