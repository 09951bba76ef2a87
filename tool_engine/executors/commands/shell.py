"""How does a model run its own shell script, where the definition permits it?

A script runs only with consent, and only in a sandbox that the kernel enforces (see
`sandbox_launcher`): where either is missing, nothing runs and the error says what to do. The engine
asks for consent, as for every tool: see `ShellExecutor.needs_consent`.
"""

from __future__ import annotations

import json
import os
import platform
import stat
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands import sandbox_launcher
from tool_engine.executors.commands.argument import MAX_ARGUMENT_BYTES
from tool_engine.executors.commands.call_filter import call_filter
from tool_engine.executors.commands.command_executor import seconds_left
from tool_engine.executors.commands.command_outcome import output_of
from tool_engine.executors.commands.own_thread import ProcessGroup
from tool_engine.executors.commands.program import SYSTEM_PATH
from tool_engine.executors.commands.shell_entry import SCRIPT, ShellPlan, compile_entry
from tool_engine.executors.commands.supervisor import Command
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.trusted import Kind, TrustedPath, fold_name, trusted_paths

_SHELL: Final = "/bin/sh"
_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/ssl/openssl.cnf",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
)
"""What programs need; in folders that may hold secrets, such as /etc, no more than that."""
_NETWORK: Final = (
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
)
_DEVICES: Final = ("/dev/null",)


class ShellExecutor:
    """The executor of scripts by a model; the tool's only parameter is `script`."""

    needs_consent = True
    """Each script needs consent, even if the definition does not ask for it."""

    def __init__(self) -> None:
        self._plans = CompiledEntries(compile_entry)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Run the script in the sandbox.

        Returns:
            `{"exit_code", "stdout", "stderr", "truncated"}`, whatever the exit code is.

        Raises:
            ToolExecutionError: There is no sandbox, or the script cannot be run or wrote too much.
            TimeoutError: It did not end in time; nothing of it is left.
        """
        plan, script = self._check_runnable(tool, params)
        timeout = seconds_left(context)
        finished = await ProcessGroup(partial(_make_command, plan, script), timeout).run()
        return output_of("the script", finished, timeout)

    def preview(self, tool: Tool, params: dict[str, Any]) -> str:
        """Return what the approver sees; raise if the script cannot run."""
        plan, script = self._check_runnable(tool, params)
        writes = ", ".join(plan.write) or "nothing"
        reads = "".join(f", {each}" for each in plan.read)
        network = "may use the network" if plan.network else "no network"
        return (
            f"a shell script runs in {plan.cwd} (reads that folder{reads}; may change: {writes}; "
            f"{network}):\n{script}"
        )

    def _check_runnable(self, tool: Tool, params: dict[str, Any]) -> tuple[ShellPlan, str]:
        plan, script = self._plans.of(tool), params[SCRIPT]
        if obstacle := sandbox_launcher.find_obstacle():
            raise ToolExecutionError(f"{tool.name} is disabled, for it has no sandbox: {obstacle}")
        check_script(plan, script)
        return plan, script


def check_script(plan: ShellPlan, script: str) -> None:
    for text in plan.deny:
        if text in script:
            raise ToolExecutionError(f"the script holds {text!r}, which this tool does not run")
    try:
        size = len(script.encode())
    except UnicodeEncodeError:
        raise ToolExecutionError("the script is not valid Unicode") from None
    if "\0" in script or size > MAX_ARGUMENT_BYTES:
        raise ToolExecutionError(
            f"the script must have no NUL character and at most {MAX_ARGUMENT_BYTES} bytes, it has "
            f"{size} bytes"
        )


def _make_command(plan: ShellPlan, script: str) -> Command:
    if not sys.executable:
        raise ToolExecutionError(
            "the sandbox needs the Python interpreter, whose path (sys.executable) is not known"
        )
    system = (*_SYSTEM, *(_NETWORK if plan.network else ()))
    (folder,) = _find_existing("entry.cwd", [plan.cwd])
    writable = _find_existing("entry.config.write", plan.write)
    trusted = trusted_paths()
    for each in trusted:
        _check_writable(writable, each)
    check_hard_links(writable, trusted)
    policy = {
        "read": [
            *filter(os.path.exists, system),
            folder,
            *_find_existing("entry.config.read", plan.read),
        ],
        "write": writable,
        "devices": [*filter(os.path.exists, _DEVICES)],
        "network": plan.network,
        "calls": _filter_calls(plan, has_attributes=False),
        "calls_with_mounts": _filter_calls(plan, has_attributes=True),
        "program": _SHELL,
    }
    launcher = [sys.executable, "-I", "-S", sandbox_launcher.__file__, json.dumps(policy)]
    env = {"PATH": os.pathsep.join(SYSTEM_PATH), "LANG": "C.UTF-8", "HOME": folder}
    # It would end at the sight of a file that it may not read.
    env["GIT_CONFIG_NOSYSTEM"] = "1"
    return Command(
        program=sys.executable,
        argv=[*launcher, "sh", "-c", script],
        env={**env, "TMPDIR": folder},
        cwd=folder,
    )


def _check_writable(folders: Sequence[str], trusted: TrustedPath) -> None:
    """Raise `ToolExecutionError` for a folder in which scripts could change trusted files."""
    for folder in folders:
        if trusted.meets(folder):
            raise ToolExecutionError(
                f"scripts of this tool may write {folder!r}, which {trusted.what} is in "
                f"({trusted.path}), and that no tool may change; name folders without it in "
                "entry.config.write"
            )


def _filter_calls(plan: ShellPlan, *, has_attributes: bool) -> str:
    machine = platform.machine()
    return call_filter(machine, has_network=plan.network, has_attributes=has_attributes).hex()


def _find_existing(key: str, paths: Sequence[str]) -> list[str]:
    found = []
    for path in paths:
        real = Path(os.path.realpath(path))  # which does not raise for a link to itself
        if not real.exists():
            raise ToolExecutionError(
                f"the tool's {key} {path!r} does not exist; make it, or correct {key}"
            )
        found.append(str(real))
    return found


MAX_ENTRIES: Final = 200_000
"""The most entries examined below one folder, so that a run begins in time."""

Identity = tuple[int, int]


# Writing through any hard link writes the file itself. The folders are searched only where a
# trusted file has several names, as package installers make hard links.
def check_hard_links(folders: Iterable[str], trusted: Iterable[TrustedPath]) -> None:
    """Raise if a trusted file may have a name below the folders. Blocks."""
    several: dict[Identity, tuple[str, str]] = {}
    for path, status, what in _files_of(trusted):
        if status.st_nlink > 1:
            several.setdefault((status.st_dev, status.st_ino), (path, what))
    for folder in folders if several else ():
        for path, status in _files_below(folder):
            known = several.get((status.st_dev, status.st_ino))
            if known is not None:
                raise ToolExecutionError(
                    f"scripts of this tool may write {path!r}, which is a hard link of "
                    f"{known[0]!r} ({known[1]}), and that no tool may change; remove the link, or "
                    "put a copy in its place"
                )


def _files_of(trusted: Iterable[TrustedPath]) -> Iterator[tuple[str, os.stat_result, str]]:
    folders: dict[str, str] = {}
    modules: defaultdict[str, dict[str, TrustedPath]] = defaultdict(dict)
    for each in trusted:
        folder, name = each.place
        if each.kind is Kind.FOLDER:
            folders[each.path] = each.what
        elif each.kind is Kind.MODULE:
            modules[folder][fold_name(name)] = each
        else:
            with suppress(OSError):
                yield each.path, os.stat(each.path), each.what  # noqa: PTH116 - thousands of files
    for folder, what in folders.items():
        for path, status in _files_below(folder):
            yield path, status, what
    for folder, names in modules.items():
        for path in _entries_of(folder, folder):
            name = path.rpartition("/")[2]
            module = names.get(fold_name(name).partition(".")[0])
            if module is not None and module.is_named(name):
                with suppress(OSError):
                    yield path, os.stat(path), module.what  # noqa: PTH116 - many files


def _files_below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a path; follow no links."""
    pending, seen = [path], 0
    while pending:
        entries = _entries_of(pending.pop(), path)
        seen += len(entries)
        if seen > MAX_ENTRIES:
            raise _unknown_error(path, f"are more than {MAX_ENTRIES} files")
        for each in entries:
            with suppress(FileNotFoundError):  # it has gone meanwhile
                status = os.lstat(each)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(each)
                elif stat.S_ISREG(status.st_mode):
                    yield each, status


def _entries_of(folder: str, path: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]  # noqa: PTH208 - many files
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return [folder]
    except OSError as error:
        if _is_closed(folder):
            return []
        raise _unknown_error(path, f"{folder!r} cannot be listed ({error.strerror})") from None


def _is_closed(folder: str) -> bool:
    """Return True if scripts can neither enter the folder nor change its mode."""
    try:
        return Path(folder).stat().st_uid != os.geteuid() and not os.access(folder, os.X_OK)
    except OSError:
        return True


def _unknown_error(path: str, why: str) -> ToolExecutionError:
    return ToolExecutionError(
        "whether scripts of this tool may write what no tool may change, by a hard link, is not "
        f"known: below {path!r} {why}; name folders with less in entry.config.write, and keep "
        "definitions in a folder of their own"
    )
