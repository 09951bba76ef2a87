"""Workflows: tools whose steps call other tools."""
