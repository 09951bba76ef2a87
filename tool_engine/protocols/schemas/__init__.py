"""Which part of JSON Schema does each provider take, and what becomes of the rest?"""

from __future__ import annotations

from tool_engine.protocols.schemas.fitting import SchemaSubset, fit_schema

__all__ = ["SchemaSubset", "fit_schema"]
