"""Which arguments are scripts."""

from __future__ import annotations

import shlex

import pytest

from tool_engine.executors.commands.command_entry import script_places


@pytest.mark.parametrize(
    "line",
    [
        "sh -c HERE",
        "/bin/bash -euo pipefail -c HERE",
        "bash -ceu HERE",
        "bash -O extglob +o posix -c HERE a b",
        "bash --rcfile /dev/null -c HERE",
        "env A=b nice -n 5 dash -c HERE",
        "python3.12 -I -W ignore -c HERE",
        "python -cHERE",
        "perl -MList::Util -Mre -ne HERE file",
        "ruby -e HERE",
        "node --eval=HERE",
        "php -r HERE",
        "sed HERE file",
        "sed -n -e HERE",
        "sed --expression=HERE file",
        "awk HERE file",
        "awk -F : -v a=b HERE file",
        "gawk --source HERE",
        "watch HERE",
    ],
)
def test_scripts(line: str) -> None:
    """The place is found behind options, joined to its option, and behind other programs."""
    argv = shlex.split(line)
    places = {number for _, number in script_places(argv)}
    assert next(number for number, word in enumerate(argv) if "HERE" in word) in places


@pytest.mark.parametrize(
    "line",
    [
        "ls -c HERE",
        "sh script HERE",
        "sh script -c HERE",
        "sh -c script sh HERE",
        "sh -c script -c HERE",
        "python3 -m module -c HERE",
        "awk -v a=HERE script",
        "awk script HERE",
        "awk -F HERE script",
        "sed -n p HERE",
        "sh",
        "sh -e",
    ],
)
def test_no_scripts(line: str) -> None:
    """Arguments of a script, and of programs that read none, are arguments."""
    argv = shlex.split(line)
    assert not [number for _, number in script_places(argv) if "HERE" in argv[number]]
