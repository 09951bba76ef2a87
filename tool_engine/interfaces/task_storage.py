"""Where are calls kept that outlive their caller?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from tool_engine.interfaces.storage import RecordStorage
    from tool_engine.model.record import CallEntry
    from tool_engine.model.task import KeptTask, TaskState


class TaskStorage(Protocol):
    """Keeps tasks, in the order in which they are to run.

    A worker is an engine with tasks. A task belongs to at most one, and only that one changes it:
    what another one writes is refused, so that a task ends once. No method compares times of two
    machines: a worker lives as long as the number changes that it counts up, and all times in tasks
    are those of `read_time`.
    """

    is_shared: bool
    """Whether other engines, and later ones, see the same tasks."""

    @property
    def may_put_late(self) -> bool:
        """True if a tool may begin before its task is put.

        So where `put` takes time, and the storage took what it was last given.
        """

    async def read_time(self) -> float | None:
        """Return the Unix time for all that share it, in seconds; None: that of the program."""

    async def put(self, task: KeptTask) -> KeptTask:
        """Keep a new task, and return it; or the one with its owner and its `key`, if there is.

        From then on it outlives its process. One that has ended is kept with its end.
        """

    def put_nowait(self, task: KeptTask) -> KeptTask | None:
        """Do the same where it takes no time; None: it takes some, and nothing was done."""

    async def get(self, task_id: str, owner: str | None = None) -> KeptTask | None:
        """Return a task, or None; with an owner, one of others is none, and takes as long."""

    async def get_by_key(self, owner: str, key: str) -> KeptTask | None:
        """Return the task that an owner has started with a key, or None."""

    async def count_kept(self, owner: str) -> int:
        """Return how many tasks of an owner are kept, those that have ended among them."""

    async def find_first_end(self, owner: str) -> datetime | None:
        """Return when the first of an owner's ended tasks is forgotten; None: none has ended."""

    async def list(
        self,
        owner: str | None,
        status: str | None,
        limit: int,
        after: str | None,
        tool_name: str | None = None,
        *,
        results: bool = False,
        now: datetime | None = None,
    ) -> Sequence[TaskState]:
        """Return states, the newest first; None: of every owner, status, or tool.

        Args:
            owner: The owner.
            status: The status.
            limit: The most of them.
            after: The id of a task, whose next older ones are asked for.
            tool_name: The tool.
            results: Whether each one has its result, which may be large.
            now: The time: what has ended, and is to be forgotten by then, is left out.
        """

    async def count_ahead(self, task: KeptTask, most: int) -> int:
        """Return how many queued tasks come before a queued one, or `most` where more do.

        It is asked each time that one asks for the task, however many wait.
        """

    async def claim(
        self, worker: str, limit: int, full: Collection[str] = (), *, is_own: bool = False
    ) -> Sequence[KeptTask]:
        """Give queued tasks that none has taken to a worker, the first in order.

        Each to one worker, none of the tools in `full`, and with `is_own` only those that this
        worker alone can run.
        """

    async def claim_expired(self, worker: str, now: datetime, limit: int) -> Sequence[KeptTask]:
        """Give queued tasks that none has taken to a worker, those whose time is over."""

    async def take(self, task_ids: Collection[str], worker: str) -> Sequence[KeptTask]:
        """Give those of some tasks to a worker that are queued, and that none has taken."""

    async def change(self, task: KeptTask, state: TaskState) -> bool:
        """Write a state; False: the task has ended, or belongs to another worker, or is gone.

        False, too, where it runs, and the state says that it waits: `give_back` alone takes that
        back.
        """

    async def end_all(self, ends: Sequence[tuple[KeptTask, TaskState]]) -> Collection[str]:
        """Write the last states of tasks of one worker; return the ids of those of `change`."""

    def change_nowait(self, task: KeptTask, state: TaskState) -> bool | None:
        """Do the same where it takes no time; None: it takes some, and nothing was done."""

    def hold_record(self, task_id: str, record: CallEntry, records: RecordStorage) -> bool:
        """Take a record, to write it with the end of its task; False: `records` is to take it."""

    def release_record(self, task_id: str) -> None:
        """Let the storage of records take what was not written with the end of a task."""

    async def give_back(self, task: KeptTask) -> bool:
        """Queue a task again that its worker has taken; False as of `change`."""

    async def ask_cancel(self, task_ids: Collection[str], reason: str) -> Collection[str]:
        """Note that tasks are to be cancelled by their workers; return those that are open."""

    async def beat(self, worker: str) -> dict[str, int]:
        """Count a worker's number up, and return the numbers of all that have tasks or count."""

    async def list_own(self, worker: str) -> Sequence[tuple[str, str | None]]:
        """Return the ids of a worker's tasks, and why they are to be cancelled, where they are."""

    async def retire(self, worker: str) -> None:
        """Queue again what a worker has taken and not begun, and forget it."""

    async def inherit(self, worker: str, heir: str) -> Sequence[KeptTask]:
        """Give the tasks of a dead worker to another one, and forget the dead one."""

    async def remove(self, task_id: str) -> bool:
        """Forget a task that has ended; False: it has not, or is gone."""

    async def remove_expired(self, now: datetime) -> int:
        """Forget the ended tasks whose time is over; return how many."""
