"""Names that an answer may not call, found in its source; the worker guards them while it runs as well."""

from __future__ import annotations

import ast
import textwrap

from .markers import UNPARSED


def forbidden_use(body: str, forbidden: tuple[str, ...]) -> tuple[int, str] | None:
    """The first use of a forbidden name in a body: (line of the body counted from 1, name), or None.

    Of a dotted name only the use through torch counts: calling the course's own ``scaled_dot_product_attention`` is
    what exercise 1.6 is about; ``F.scaled_dot_product_attention``, or importing it from torch, is forbidden. A name
    without dots is one of the course's functions and forbidden as it stands.

    Args:
        body: Source of a region.
        forbidden: Dotted names.

    Example:
        >>> forbidden_use("return F.scaled_dot_product_attention(q, k, v)",
        ...               ("torch.nn.functional.scaled_dot_product_attention",))
        (1, 'torch.nn.functional.scaled_dot_product_attention')
    """
    names = {dotted.rpartition(".")[2]: dotted for dotted in reversed(forbidden)}
    try:
        tree = ast.parse(textwrap.dedent(body))
    except UNPARSED:
        return None
    uses = [(node.lineno, names[name]) for node in ast.walk(tree) if (name := _named(node, names)) is not None]
    return min(uses, default=None)


def _named(node: ast.AST, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Attribute) and node.attr in names:
        return node.attr
    if isinstance(node, ast.Name) and names.get(node.id) == node.id:
        return node.id
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
        return next((alias.name for alias in node.names if alias.name in names), None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "eval", "exec"):
        texts = [
            leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
        ]
        return next((name for name in names if any(name in text for text in texts)), None)
    return None
