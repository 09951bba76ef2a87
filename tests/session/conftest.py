"""The engine of the tests of sessions."""

from tests.session.small_engine import engine, folder

__all__ = ["engine", "folder"]
