"""What is left of a program's text without its names, sizes and docstrings: two programs of one normal form are one."""

import ast
from collections.abc import Iterator


def normal_form(text: str) -> str:
    """The tree of a program whose own names are numbered as they appear, and whose constants at the top are gone.

    What stays is what a program does: its calls, the numbers among its lines, its order, and its dtype.
    """
    tree = ast.parse(text)
    sizes = [target.id for node in tree.body if isinstance(node, ast.Assign) and _is_size(node.value)
             for target in node.targets if isinstance(target, ast.Name)]  # fmt: skip
    tree.body = [node for node in tree.body if not (isinstance(node, ast.Assign) and _is_size(node.value))]
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    numbered = dict.fromkeys(sizes, "size")

    def number(name: str) -> str:
        return numbered.setdefault(name, f"n{len(numbered)}")

    for node in _in_order(tree):
        match node:
            case ast.Name(name) if name in own or name in numbered:
                node.id = number(name)
            case ast.arg(name):
                node.arg = number(name)
            case ast.Attribute(ast.Name("self" | "n0"), name) if name != "register_buffer":
                node.attr = number(name)
            case ast.Call(ast.Attribute(_, "register_buffer"), [ast.Constant(str(name)) as given, *_]):
                given.value = number(name)
            case _:
                pass
    return ast.dump(tree)


def _is_size(value: ast.expr) -> bool:
    """Numbers at the top of a file; a dtype there is structure."""
    return not any(isinstance(node, ast.Attribute) for node in ast.walk(value))


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree as they are read, unlike `ast.walk`, which goes level by level."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
