"""Log lines go to stderr while a command runs, and nowhere else is touched."""

import logging
import subprocess
import sys

import pytest
import structlog

from tool_engine.cli.logs import logs_on_stderr
from tool_engine.logger import Logger
from tool_engine.observability.event_lines import EVENTS_LOGGER


def test_warnings_go_to_stderr_for_the_time_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Stdout belongs to the answer; the level is kept; afterwards all is as before."""
    structlog.reset_defaults()  # a test that captured log lines leaves it configured
    log = structlog.get_logger()
    with logs_on_stderr(logging.WARNING):
        log.info("quiet")
        log.warning("loud", key=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "loud" in err
    assert "quiet" not in err
    assert "\x1b" not in err
    assert not structlog.is_configured()


def test_a_program_with_its_own_logging_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line does not take over a logging that somebody has set up."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory())
    try:
        with logs_on_stderr():
            structlog.get_logger().warning("mine")
        assert structlog.is_configured()
    finally:
        structlog.reset_defaults()
    assert "mine" in capsys.readouterr().out


def test_how_a_call_ended_is_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The command's answer says it; the log line of the same failure is left out."""
    structlog.reset_defaults()
    with logs_on_stderr(logging.WARNING):
        Logger(EVENTS_LOGGER).warning("execution_failed", tool_name="add")
        Logger("tool_engine.reloading").warning("load_error")
    err = capsys.readouterr().err
    assert "execution_failed" not in err
    assert "load_error" in err


def test_what_is_left_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """A thread that outlives its call is no matter of names and fields to who called it."""
    structlog.reset_defaults()
    with logs_on_stderr(logging.WARNING):
        Logger("tool_engine.engine").warning("close_left_threads", threads=2)
    err = capsys.readouterr().err
    assert err.startswith("warning: a function of a tool has gone on after its call had ended (thr")
    assert "(threads: 2)" in err
    assert "close_left_threads" not in err


def test_what_watchdog_calls_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    """A watch that ends before it has begun is no news for the terminal."""
    code = (
        "import logging; from tool_engine.cli.logs import logs_on_stderr\n"
        "with logs_on_stderr():\n"
        "    logging.getLogger('watchdog.observers.inotify').error('thread is inactive')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert capfd.readouterr() == ("", "")
