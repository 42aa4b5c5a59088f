"""What stands in the source beside names: Python keeps no docstrings of fields and members."""

import ast
import inspect
import textwrap
from itertools import pairwise
from types import ModuleType


def of_fields(owner: type | ModuleType) -> dict[str, str]:
    """The string literal after each assignment in a class or module, by the name assigned to."""
    parsed = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body = parsed.body
    if isinstance(owner, type):
        assert isinstance(body[0], ast.ClassDef)
        body = body[0].body
    found = {}
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


def first_line(of: object) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(of) or "").split("\n\n")[0]
