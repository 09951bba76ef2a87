"""Would the proof notice a mutation that no test finds, or one that is none?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.mutate import MutationError, Tree, chosen, mutated
from tests.proof.mutations import Mutation

MODULE = "tool_engine/__init__.py"
SUITE = ("tests",)
TESTS = """
import asyncio
from tool_engine import VALUES

def spin():
    while len(VALUES) > 2:
        pass

async def check():
    asyncio.get_running_loop().call_soon(spin)
    await asyncio.sleep(0)
    assert len(VALUES) == 2

def test_size():
    asyncio.run(check())
"""


def mutation(old: str, new: str, suite: tuple[str, ...] = SUITE) -> Mutation:
    return Mutation("the mutation", MODULE, old, new, suite)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The copy of a tree with one list and one test of its length."""
    root = tmp_path / "root"
    for folder in ("tool_engine", "tests", "tools"):
        (root / folder).mkdir(parents=True)
    (root / MODULE).write_text("VALUES = [1, 2]\n")
    (root / "tests" / "test_it.py").write_text(TESTS)
    # As in the project's own: that plugin takes as long as all the rest.
    settings = "[tool.pytest.ini_options]\naddopts = '-p no:langsmith_plugin'\n"
    (root / "pyproject.toml").write_text(settings)
    return Tree(tmp_path / "copy", root)


def test_each_mutation_fits() -> None:
    """A mutation whose line has changed is a mutation of nothing: it must follow the code."""
    assert chosen(())
    with pytest.raises(MutationError, match="there is no mutation 'odd'"):
        chosen(("odd",))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[3]", "[]", "'the mutation': the old text occurs 0 times in tool_engine/__init__.py"),
        ("1", "2", "occurs 2 times"),
        ("[1", "[[1", "'the mutation' is not Python"),
        ("VALUES", "VALUES", "changes nothing"),
    ],
)
def test_mutation_that_does_not_fit(old: str, new: str, message: str) -> None:
    """A mutation that is no longer one is an error that names it."""
    with pytest.raises(MutationError, match=message):
        mutated("VALUES = [1, 1]\n", mutation(old, new))


async def test_copy_is_what_runs(tree: Tree) -> None:
    """The tests run with the copy of the package, not with the one that is installed."""
    await tree.check()
    (tree.folder / MODULE).unlink()
    (tree.folder / MODULE).parent.rmdir()
    with pytest.raises(MutationError, match="not with the copy"):
        await tree.check()


async def test_caught(tree: Tree) -> None:
    """The table names the test that found the mutation; the copy is as before."""
    outcome = await tree.try_out(mutation("[1, 2]", "[1]"))
    assert (outcome.is_caught, outcome.by) == (True, "tests/test_it.py::test_size")
    assert not (await tree.run_tests(SUITE)).is_caught


async def test_survivor(tree: Tree) -> None:
    """A mutation that no test finds is not caught."""
    assert not (await tree.try_out(mutation("[1, 2]", "[1, 3]"))).is_caught


async def test_endless_test(tree: Tree) -> None:
    """A mutation that makes a test endless is caught, though an event loop is at work there."""
    tree.test_limit = 1.0
    outcome = await tree.try_out(mutation("[1, 2]", "[1, 2, 3]"))
    assert (outcome.is_caught, outcome.by) == (True, "tests/test_it.py::test_size (hangs)")


async def test_endless_run(tree: Tree) -> None:
    """A mutation with which pytest does not come to its end is caught by the last time limit."""
    tree.run_limit = 1.0
    outcome = await tree.try_out(mutation("[1, 2]", "[1, 2, 3]"))
    assert (outcome.is_caught, outcome.by) == (True, "the limit of 1 s")


async def test_run_that_fills_the_memory(tree: Tree) -> None:
    """A mutation that leaves pytest no memory to say so is caught by that limit."""
    ends = "[1, 2]\nimport atexit, os\n"
    ends += "atexit.register(lambda: (os.write(2, b'MemoryError'), os._exit(1)))"
    outcome = await tree.try_out(mutation("[1, 2]", ends))
    assert (outcome.is_caught, outcome.by) == (True, "the limit of 4 GiB")


@pytest.mark.parametrize(
    ("new", "suite"),
    [("[1, 2] + undefined", SUITE), ("[3, 4]", ("tests/no_such_test.py",))],
    ids=["import fails", "no test"],
)
async def test_run_that_proves_nothing(tree: Tree, new: str, suite: tuple[str, ...]) -> None:
    """A run that never came to its tests has caught nothing: it is an error."""
    with pytest.raises(MutationError, match="pytest ended with"):
        await tree.try_out(mutation("[1, 2]", new, suite))
