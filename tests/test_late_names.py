"""How does a package load a module of its own only when a name of it is first used?"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

FORM = """
from tool_engine.late_names import find_later
__getattr__ = find_later(__name__, {"inner.deep": "late missing"})
"""


def test_a_module_is_loaded_with_its_first_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before, and the package asks only once; a name that is nowhere is said to be missing."""
    inner = tmp_path / "package_of_late_names" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text(FORM)
    (inner / "__init__.py").touch()
    (inner / "deep.py").write_text("late = object()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = import_module("package_of_late_names")
    assert "package_of_late_names.inner.deep" not in sys.modules
    with pytest.raises(
        AttributeError, match=r"^module 'package_of_late_names' has no attribute 'other'$"
    ):
        package.other  # noqa: B018 - looking it up is what is tried
    late = package.late
    assert vars(package)["late"] is late
    assert late is sys.modules["package_of_late_names.inner.deep"].late
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        package.missing  # noqa: B018 - looking it up is what is tried
    for name in [name for name in sys.modules if name.startswith("package_of_late_names")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def collector() -> Iterator[None]:
    """The garbage collector is on, as in most programs."""
    was_on = gc.isenabled()
    gc.enable()
    yield
    if not was_on:
        gc.disable()


@pytest.mark.usefixtures("collector")
def test_no_garbage_collection_interrupts_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards the collector is as it was, also where the import fails."""
    package = tmp_path / "package_without_collections"
    package.mkdir()
    (package / "__init__.py").write_text(FORM.replace("inner.deep", "deep"))
    (package / "deep.py").write_text("import gc\nlate = gc.isenabled()\nif not late: missing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = import_module(package.name)
    assert gc.isenabled()
    with pytest.raises(NameError, match="missing"):
        names.late  # noqa: B018 - looking it up is what is tried
    assert gc.isenabled()
    (package / "deep.py").write_text("import gc\nlate = gc.isenabled()\nlast = None\n")
    assert names.late is False
    assert gc.isenabled()
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        monkeypatch.delitem(sys.modules, name)
