"""The engine of the tests of names; the others write their own folders."""

from tests.session.small_engine import engine, folder

__all__ = ["engine", "folder"]
