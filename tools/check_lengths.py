"""Check that files and functions of src/ stay short: at most 400 lines a file, 50 a function.

``python -m tools.check_lengths [FILE…]`` prints what is too long and ends with 1 if anything is. A
function's length is counted from its ``def`` to its last line. What was too long when the check was made is
in ``ALLOWED``, with its length: it may shrink, and what has shrunk is taken off.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_FILE = 400
MAX_FUNCTION = 50

# "path" for a file, "path::Class.function" for a function: the lines it may have.
ALLOWED: dict[str, int] = {}


def too_long(path: Path) -> Iterator[tuple[str, int]]:
    name = path.resolve().relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    if (count := len(text.splitlines())) > MAX_FILE:
        yield name, count
    for qualified, node in _functions(ast.parse(text), ""):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION:
            yield f"{name}::{qualified}", length


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def main(arguments: list[str]) -> int:
    sources = [Path(name) for name in arguments] or sorted((ROOT / "src").rglob("*.py"))
    found = dict(item for path in sources for item in too_long(path))
    failed = False
    for what, length in found.items():
        if length > ALLOWED.get(what, 0):
            failed = True
            sys.stderr.write(f"{what}: {length} lines\n")
    if not arguments:
        for what, allowed in ALLOWED.items():
            if found.get(what, 0) < allowed:
                failed = True
                sys.stderr.write(f"{what}: {found.get(what, 'short enough')} now; write it down in ALLOWED\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
