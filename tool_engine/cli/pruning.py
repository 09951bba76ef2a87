"""Which records are removed when somebody asks for room?"""

from __future__ import annotations

from tool_engine.cli.console import print_json
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.quantities import parse_seconds, parse_size
from tool_engine.cli.recording import open_records
from tool_engine.cli.settings import Settings, run_async
from tool_engine.cli.tables import count_text
from tool_engine.model.retention import RecordRetention

__all__ = ["prune_records"]


def prune_records(
    settings: Settings,
    *,
    older_than: str | None,
    keep: int | None,
    max_size: str | None,
    as_json: bool,
) -> int:
    """Removes the oldest records, and says how many they were."""
    if older_than is None and keep is None and max_size is None:
        raise CommandError(
            "say what to remove: --older-than 30d, --keep 100000 or --max-size 500MB; a record "
            "goes when any of them says so"
        )
    retention = RecordRetention(
        max_age=None if older_than is None else parse_seconds("--older-than", older_than),
        max_count=keep,
        max_bytes=None if max_size is None else parse_size("--max-size", max_size),
    )
    return run_async(_prune(settings, retention, as_json=as_json))


async def _prune(settings: Settings, retention: RecordRetention, *, as_json: bool) -> int:
    async with open_records(settings) as store:
        removed = await store.prune(retention)
    if as_json:
        print_json({"removed": removed})
    else:
        print(f"removed {count_text(removed, 'record')}")
    return EXIT_OK
