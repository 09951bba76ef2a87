"""Is a limit that finds itself as good as the best one that stays? On services that change."""

from __future__ import annotations

import functools

import pytest

from tests.admission.load.pictures import PICTURE, run_all
from tests.admission.load.service import (
    SCENARIOS,
    Outcome,
    Scenario,
    find_best,
    longest_wait,
    run_scenario,
)
from tests.effort import IS_WHOLE

KINDS = ("aimd", "gradient2")
SEEDS = (1, 2, 3, 4) if IS_WHOLE else (1,)


@functools.cache
def with_the_best_limit(scenario: Scenario, seed: int) -> Outcome:
    """The same for each kind of limit that finds itself."""
    return run_scenario(scenario, limit=scenario.best, seed=seed)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_it_is_as_good_as_the_best_limit_that_stays(scenario: Scenario, kind: str) -> None:
    """M11: at least 0.9 of its throughput, and at most 1.5 times its 95th percentile of waits."""
    for seed in SEEDS:
        stays = with_the_best_limit(scenario, seed)
        finds = run_scenario(scenario, adaptive={"kind": kind, "min": 1, "max": 100}, seed=seed)
        assert finds.throughput >= 0.9 * stays.throughput, seed
        assert finds.wait_p95 <= longest_wait(scenario, stays), (seed, stays.wait_p95)
        assert all(1 <= limit <= 100 for _, limit in finds.limits)


@pytest.mark.skipif(not IS_WHOLE, reason="searches with 17 limits each")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_best_limit_that_stays_is_found_by_search(scenario: Scenario) -> None:
    """M11: the comparison is with the best one, not with one that is easily beaten."""
    assert find_best(scenario)[0] == scenario.best


@pytest.mark.skipif(not IS_WHOLE, reason="takes as long as all scenarios")
def test_the_page_shows_what_happens() -> None:
    """M11: drawn anew with `python -m tests.admission.load.pictures`, which prints the table."""
    picture, rows = run_all()
    assert PICTURE.read_text(encoding="utf-8") == picture
    page = PICTURE.parents[1] / "how-to" / "adaptive-limits.md"
    assert "\n".join(rows) in page.read_text(encoding="utf-8")
