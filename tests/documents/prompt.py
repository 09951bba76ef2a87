"""What does the prompt of `python -m asyncio` make of a block of Python that is typed into it?

It takes line by line, as that of Python 3.11 does: a blank line ends a compound statement, and
nothing else does. What is typed is run statement by statement.
"""

from __future__ import annotations

import ast
import codeop
from collections.abc import Iterator
from types import CodeType

CURE = (
    "the prompt takes a blank line as the end of a class, function or loop, and needs one there: "
    "put one behind it and none inside, or make the block a file with a first line `# name.py`"
)


def type_lines(source: str, filename: str, offset: int = 0) -> Iterator[CodeType]:
    """Yield the code of each statement of a block, as the prompt reads it.

    Args:
        source: The block.
        filename: Where it stands.
        offset: The lines that stand before it.

    Raises:
        SyntaxError: The prompt reads the line otherwise than the page shows it.
    """
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    typed: list[str] = []
    # At the end of a block a reader presses Enter once more.
    for number, line in enumerate([*source.splitlines(), ""], 1):
        typed.append(line)
        text = "\n".join(typed)
        try:
            is_whole = compiler(text, filename, "single") is not None
        except SyntaxError as error:
            raise SyntaxError(f"line {offset + number}: {error.msg}: {CURE}") from None
        if is_whole:
            # Not as `single`, which would show the value of an expression.
            yield compile_block(text, filename, offset + number - len(typed))
            typed = []
    if "".join(typed).strip():
        raise SyntaxError(f"line {offset + number - len(typed) + 1}: the statement has no end")


def compile_block(source: str, filename: str, offset: int) -> CodeType:
    """Return the code of a whole block, which may await outside of functions."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile("\n" * offset + source, filename, "exec", flags, dont_inherit=True)
    return code
