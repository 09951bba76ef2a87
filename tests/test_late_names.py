"""How does a package load a module of its own only when a name of it is first used?"""

from __future__ import annotations

import sys
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
