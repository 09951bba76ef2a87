"""Which one name does each fact have in logs, events and metrics?

A fact has one name: its log line, its event on the bus and the label of a metric that counts it
carry the same one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tool_engine.observability.event_lines import LINES


class Fact(NamedTuple):
    """One name, and where it is used."""

    level: str
    """The level of its log line."""
    meaning: str


_OF_EVENTS: Final = {
    "tool_loaded": "a tool was loaded at the start",
    "tool_added": "there is a new tool",
    "tool_updated": "a tool has other content",
    "tool_removed": "a tool is gone",
    "reload_started": "a reload begins",
    "reload_completed": "a reload has ended; `warning` when it failed",
    "validation_error": "a call ended: its arguments were refused",
    "execution_queued": "a call waits for its slot",
    "execution_started": "a call has its slot",
    "execution_retried": "an attempt failed, and the tool runs again",
    "execution_completed": "a call succeeded",
    "execution_failed": "a call failed; `info` for what is not to be mended, as an unknown tool",
    "execution_cancelled": "a call ended: its caller was cancelled",
    "execution_progress": "a tool says how far it has come; `done`, `total` and `message`",
    "execution_logged": "a tool says something of its call, at a level of its choice; `message`",
    "approval_requested": "a person is asked about a call or its result",
    "approval_answered": "a request for approval is answered; `is_approved` and `by`",
    "decision_kept": "a decision holds for a principal from now on; `principal`, `always` and `by`",
    "decision_revoked": "a decision does not hold for a principal any more; `principal` and `by`",
    "tool_toggled": "a conversation turned a tool on or off; `session_id` and `is_enabled`",
    "limit_adapted": "a bucket's limit has found another value; `bucket`, `previous`, `limit`, "
    "`reason`",
    "group_added": "a program has registered a group; `group`",
    "group_removed": "a program has taken its group out; `group`",
    "group_toggled": "a conversation turned a group on or off; `group`, `session_id`, `is_enabled`",
}

FACTS: Final[dict[str, Fact]] = {
    **{kind.value: Fact(level, _OF_EVENTS[kind.value]) for kind, level in LINES.items()},
    "load_error": Fact(
        "warning",
        "a definition could not be loaded; `file` and `error`; twenty at once, and how many more",
    ),
    "load_mended": Fact("info", "a file that could not be loaded is right again, or gone; `file`"),
    "tool_quarantined": Fact("warning", "the lock file does not approve tools"),
    "group_quarantined": Fact(
        "warning",
        "the lock file does not approve a group: it adds nothing, see "
        "[the lock](lock-tools.md#groups)",
    ),
    "request_failed": Fact(
        "error", "the HTTP API could not answer; `operation` and `error`, with the trace"
    ),
    "keys_unread": Fact(
        "warning",
        "the keys of an issuer could not be read, and those before go on; `source`, `error`",
    ),
    "key_refused": Fact(
        "warning", "a key of an issuer is too weak, and verifies nothing; `source`, `error`"
    ),
    "mcp_server_down": Fact("error", "an MCP server is lost or not reached; `server` and `error`"),
    "mcp_server_back": Fact("warning", "an MCP server that was down is connected; `server`"),
    "mcp_list_not_read": Fact(
        "warning",
        "a changed list of an MCP server is none; the last good one stays, and it is read again; "
        "`server` and `error`",
    ),
    "records_not_written": Fact("error", "the database of records takes nothing; it is retried"),
    "records_written_again": Fact("warning", "it takes records again"),
    "records_dropped": Fact("error", "records had to go, as too many waited to be written"),
    "record_refused": Fact("error", "the database refused a record for what it says"),
    "agent_listener_failed": Fact("warning", "who listens to a turn of the agent loop failed"),
    "approval_listener_failed": Fact("warning", "who is told of requests for approval failed"),
    "cluster_unavailable": Fact("error", "the database of a cluster has not answered for a ttl"),
    "cluster_available": Fact("info", "the database of a cluster answers again"),
    "cluster_leases_lost": Fact("warning", "calls ended that others may have had the slots of"),
    "cluster_failed": Fact(
        "error",
        "a message to a cluster could not be sent, though the connection stands; it counts as an "
        "outage",
    ),
    "cluster_not_renewed": Fact(
        "warning", "what a process has of a cluster was not renewed while its event loop was busy"
    ),
    "cluster_units_kept": Fact("warning", "work outlives `close()`, and its units stay with it"),
    "cluster_refused": Fact("error", "the database of a cluster cannot coordinate it"),
    "fleet_joined": Fact("info", "the machines of a fleet can run tools"),
    "fleet_handler_failed": Fact(
        "info", "a handler on a fleet raised; with its traceback, in which secrets are hidden"
    ),
    "fleet_lost": Fact("warning", "a fleet is gone, and the calls that it ran have ended"),
    "approver_failed": Fact("warning", "an approver raised: its call is refused"),
    "consent_failed": Fact(
        "warning", "no approver could be asked whether a call may run: it is refused"
    ),
    "decision_not_found": Fact(
        "warning", "a remembered decision could not be looked up: the approver is asked again"
    ),
    "mcp_client_not_told": Fact(
        "debug", "a client of the MCP server did not take a notice of changes"
    ),
    "source_not_followed": Fact(
        "warning", "a source of tools could not say that it follows its changes: `reload` reads it"
    ),
    "decision_not_kept": Fact("warning", "a decision could not be kept for other processes"),
    "group_rules_failed": Fact(
        "warning", "the function that makes a group's rules failed: they are left out"
    ),
    "on_result_failed": Fact("warning", "who is told of the results of a reply's calls failed"),
    "presentation_failed": Fact(
        "warning", "code that shows a tool's results failed: the default is shown"
    ),
    "progress_listener_failed": Fact("warning", "who listens to a call's progress failed"),
    "preview_failed": Fact("debug", "a tool could not tell what a call would change"),
    "calls_not_read": Fact(
        "warning", "a reply holds calls in a provider's form that its protocol does not read"
    ),
    "refusal_not_recorded": Fact(
        "warning", "the end of a call that was not made could not be recorded"
    ),
    "reply_not_closed": Fact("warning", "a model's client failed to end a reply that had come"),
    "reply_not_decoded": Fact(
        "warning", "a protocol failed to read a model's reply while it was written"
    ),
    "arguments_not_captured": Fact("warning", "a trace has no arguments: they could not be shown"),
    "call_failed_outside_of_the_engine": Fact(
        "warning", "a call that a model asked for failed before or after the engine ran it"
    ),
    "cache_not_read": Fact("debug", "the cache of definitions is not there or not usable"),
    "cache_not_written": Fact("debug", "the cache of definitions could not be kept"),
    "close_left_backend": Fact("warning", "a backend of others did not end its `close()` in time"),
    "close_left_threads": Fact("warning", "threads of tools outlive `close()`"),
    "tool_blocked_loop": Fact(
        "warning",
        "an async function ran past its time limit without a wait, so that nothing else ran; once "
        "for each tool",
    ),
    "controller_failed": Fact("error", "a controller of others broke its contract; calls go on"),
    "event_lost": Fact("error", "the storage of events refused one"),
    "events_dropped": Fact("error", "events had to go, as too many waited to be written"),
    "events_not_written": Fact("error", "the database of events takes nothing; it is retried"),
    "events_written_again": Fact("warning", "it takes events again"),
    "executor_close_failed": Fact("error", "an executor could not be closed"),
    "leftover_ended": Fact("debug", "work that outlived its call has ended"),
    "work_lost": Fact(
        "warning", "a backend did not say in time that work which outlived its call has ended"
    ),
    "leftover_failed": Fact("error", "work that outlived its call has failed"),
    "limit_for_unknown_bucket": Fact(
        "warning",
        "a limit names a bucket that no tool uses; once for each bucket and configuration",
    ),
    "record_lost": Fact("error", "the storage of records refused one"),
    "records_not_pruned": Fact("warning", "old records could not be removed"),
    "records_pruned": Fact("info", "old records were removed"),
    "task_not_run": Fact("warning", "a task was given back, since the database does not answer"),
    "task_not_written": Fact("warning", "how a task is was not written yet; it is tried again"),
    "questions_not_closed": Fact(
        "warning", "what a dead engine asked for its tasks is still listed, until it expires"
    ),
    "tasks_left": Fact(
        "warning", "tasks of a tool that this engine has not are left to other engines for a while"
    ),
    "tasks_not_read": Fact("warning", "the database of tasks does not answer; it is tried again"),
    "records_unreachable": Fact("warning", "the database of records does not answer yet"),
    "on_before_execute_failed": Fact("warning", "who was asked whether a call may run failed"),
    "reload_failed": Fact("error", "the watcher could not reload; it goes on"),
    "result_callback_failed": Fact("warning", "a callback of a sub-agent failed"),
    "reply_not_parsed": Fact("warning", "a protocol failed to read the reply of a model"),
    "results_not_formatted": Fact("warning", "a protocol failed to write down results of calls"),
    "second_reader_lost": Fact("debug", "a helper process for large folders has ended"),
    "second_reader_not_started": Fact("debug", "a helper process for large folders did not start"),
    "slot_subscriber_failed": Fact("warning", "a listener of the controller failed"),
    "subscriber_failed": Fact("warning", "a subscriber failed; with its traceback"),
    "subscriber_slow": Fact(
        "warning", "a plain subscriber held up calls; it is called in a thread from now on"
    ),
    "token_file_unread": Fact(
        "warning", "the file of tokens of a server cannot be read; those read last count"
    ),
    "tool_edit": Fact("warning", "a tool was edited in a breaking way without a new major version"),
    "watch_failed": Fact("warning", "the file system reports no changes; polling goes on"),
    "workflow_finding": Fact("warning", "a workflow does not fit the tools that it calls"),
}
"""All names; those of `ToolEngineEventType` are events too."""
