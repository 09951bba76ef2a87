"""What does `entry.response` say about the answer of an HTTP tool, and is it right?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.files.file_entry import FileEntry
from tool_engine.executors.files.root import FileRoot
from tool_engine.executors.secrets import SecretPart
from tool_engine.executors.templates import ParameterPart, TemplateError, TextTemplate
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import is_source_name
from tool_engine.redaction import describe_value

DEFAULT_MAX_PAGES: Final = 5
MAX_PAGES_LIMIT: Final = 100
_PATH: Final = "entry.response"
_KEYS: Final = ("select", "pages", "save_to")
_PAGES_KEYS: Final = ("next", "cursor_param", "items", "max_pages")
_SAVE_KEYS: Final = ("root", "path", "create_only", "create_folders")
_LINK: Final = "link"


class PagesPlan(msgspec.Struct, frozen=True):
    next: ParsedResult | None
    """Finds the URL or cursor of the next page; None: the `Link` header names the URL."""
    cursor_param: str | None
    """The query entry that sends the cursor; None: `next` finds a URL."""
    items: ParsedResult
    max_pages: int


class SavePlan(msgspec.Struct, frozen=True):
    root: TextTemplate
    folder: str | None
    """The definition's folder, which a relative root starts from; None for a tool in code."""
    path: TextTemplate
    create_only: bool
    create_folders: bool

    def open(self) -> FileRoot:
        return FileEntry(root=self.root, folder=self.folder, max_bytes=0, ignore=None).open()


class ResponsePlan(msgspec.Struct, frozen=True):
    select: ParsedResult | None = None
    pages: PagesPlan | None = None
    save_to: SavePlan | None = None

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset(() if self.save_to is None else self.save_to.path.parameters)


def read_response(reader: EntryReader[Any], response: Any, method: str | None) -> ResponsePlan:
    """Return what `response` says; `method` is None if the call names the URL."""
    if not isinstance(response, Mapping):
        return ResponsePlan(select=_read_expression(reader, response, _PATH))
    reader.keys(response, _KEYS, _PATH)
    plan = ResponsePlan(
        select=_read_expression(reader, response.get("select"), f"{_PATH}.select"),
        pages=_read_pages(reader, response["pages"]) if "pages" in response else None,
        save_to=_save_to(reader, response["save_to"]) if "save_to" in response else None,
    )
    for name in ("pages", "save_to"):
        if name in response and method != "GET":
            reader.problem(
                f"{_PATH}.{name}",
                "needs entry.request.url beside it"
                if method is None
                else f"needs the method GET, got {method}",
            )
    if "save_to" in response and len(response) > 1:
        reader.problem(f"{_PATH}.save_to", "writes the whole body; it goes with no other key")
    return plan


def _read_expression(reader: EntryReader[Any], text: Any, path: str) -> ParsedResult | None:
    if text is None:
        return None
    if not isinstance(text, str):
        reader.problem(path, f"must be a JMESPath expression as a text, got {describe_value(text)}")
        return None
    try:
        return jmespath.compile(text)
    except JMESPathError as error:
        message = str(error).partition("\n")[0]
    except RecursionError:
        message = "nested too deep"
    cure = "; leave out the $. at its beginning" if text.startswith("$") else ""
    reader.problem(path, f"{text[:80]!r} is not JMESPath: {message.rstrip(':')}{cure}")
    return None


def _read_pages(reader: EntryReader[Any], pages: Any) -> PagesPlan | None:
    path = f"{_PATH}.pages"
    if not isinstance(pages, Mapping):
        reader.problem(
            path, f"must be a mapping such as {{next: link}}, got {describe_value(pages)}"
        )
        return None
    reader.keys(pages, _PAGES_KEYS, path)
    found = pages.get("next")
    if found is None:
        reader.problem(
            f"{path}.next",
            "is missing; write link for the Link header, or a JMESPath expression that finds the "
            "next page's URL or cursor",
        )
    cursor = pages.get("cursor_param")
    if cursor is not None and (not isinstance(cursor, str) or not cursor.strip()):
        reader.problem(
            f"{path}.cursor_param",
            f"must be the name of a query entry, got {describe_value(cursor)}",
        )
    if cursor is not None and found == _LINK:
        reader.problem(f"{path}.cursor_param", "needs a JMESPath expression as next, got 'link'")
    items = _read_expression(reader, pages.get("items", "@"), f"{path}.items")
    return PagesPlan(
        next=None if found == _LINK else _read_expression(reader, found, f"{path}.next"),
        cursor_param=cursor,
        items=items or jmespath.compile("@"),
        max_pages=_max_pages(reader, pages.get("max_pages", DEFAULT_MAX_PAGES)),
    )


def _max_pages(reader: EntryReader[Any], value: Any) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and 0 < value <= MAX_PAGES_LIMIT:
        return int(value)
    reader.problem(
        f"{_PATH}.pages.max_pages",
        f"must be a whole number between 1 and {MAX_PAGES_LIMIT}, got {describe_value(value)}",
    )
    return DEFAULT_MAX_PAGES


def _save_to(reader: EntryReader[Any], save_to: Any) -> SavePlan | None:
    path = f"{_PATH}.save_to"
    if not isinstance(save_to, Mapping):
        reader.problem(
            path,
            f"must be a mapping such as {{root: ../data, path: '{{name}}'}}, "
            f"got {describe_value(save_to)}",
        )
        return None
    reader.keys(save_to, _SAVE_KEYS, path)
    root = _read_text(
        reader, save_to.get("root"), f"{path}.root", "the folder that files are put in"
    )
    name = _read_text(
        reader, save_to.get("path"), f"{path}.path", "the path of the file below root"
    )
    flags = {"create_only": True, "create_folders": False}
    for key in flags:
        value = save_to.get(key, flags[key])
        if not isinstance(value, bool):
            reader.problem(f"{path}.{key}", f"must be true or false, got {describe_value(value)}")
        flags[key] = value is True
    if root is None or name is None:
        return None
    _check_places(reader, root, name, path)
    source = reader.tool.source
    folder = (
        None if source is None or is_source_name(source) else str(Path(source).absolute().parent)
    )
    return SavePlan(root=root, folder=folder, path=name, **flags)


def _read_text(reader: EntryReader[Any], text: Any, path: str, what: str) -> TextTemplate | None:
    if text is None:
        reader.problem(path, f"is missing; write {what}")
    elif not isinstance(text, str) or not text.strip() or "\0" in text:
        reader.problem(path, f"must be {what}, got {describe_value(text)}")
    else:
        try:
            return TextTemplate.parse(text)
        except TemplateError as error:
            reader.problem(path, str(error))
    return None


def _check_places(
    reader: EntryReader[Any], root: TextTemplate, name: TextTemplate, path: str
) -> None:
    if any(isinstance(part, ParameterPart) for part in root.parts):
        reader.problem(
            f"{path}.root",
            "must not hold a {parameter}: a call does not choose where the tool stays",
        )
    if any(isinstance(part, SecretPart) and part.source != "env" for part in root.parts):
        reader.problem(f"{path}.root", "may hold ${env:NAME}, but no ${file:...}")
    if name.has_secret:
        reader.problem(f"{path}.path", "must not hold a secret: it is part of the result")
    for used in sorted(name.parameters):
        _check_parameter(reader, used, f"{path}.path")


def _check_parameter(reader: EntryReader[Any], name: str, path: str) -> None:
    parameter = reader.parameters.get(name)
    if parameter is None:
        hint = suggest_near(name, reader.parameters) or "; declare it under parameters"
        reader.problem(path, f"takes the parameter {name!r}, which is not declared{hint}")
    elif parameter.type in ("array", "object"):
        reader.problem(
            path, f"takes the parameter {name!r} of type {parameter.type}; a path needs a text"
        )
    elif not (parameter.required or parameter.has_default):
        reader.problem(
            path,
            f"takes the parameter {name!r}, which a call may leave out; make it required or give "
            "it a default",
        )
