"""Where do the handlers of tests on a fleet stand?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.samples import handlers_in
from tests.ray_cluster import RayCluster


@pytest.fixture
def handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_cluster: RayCluster
) -> Iterator[Path]:
    with handlers_in(tmp_path, monkeypatch, ray_cluster):
        yield tmp_path
    sys.modules.pop("handlers_of_fleets", None)
