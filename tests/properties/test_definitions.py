"""Is each text that people and accidents can make read as what it says, or refused?"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import IS_WHOLE, share_of
from tests.properties.definition_judge import judge
from tests.properties.definition_mutants import SAMPLES, mutant
from tests.properties.definition_reading import differences, is_same, read_values
from tool_engine import DefinitionError, ToolConfigLoader
from tool_engine.catalog.yaml.strict_yaml import parse_yaml


@pytest.mark.parametrize("text", SAMPLES)
def test_samples(text: str) -> None:
    """K3, K14: every sample loads, and as the independent reading says."""
    assert not isinstance(judge(text), DefinitionError)
    assert not isinstance(judge(text.replace("\n", "\r\n").encode()), DefinitionError)
    assert not isinstance(judge(b"\xef\xbb\xbf" + text.encode()), DefinitionError)


@settings(max_examples=share_of(300), deadline=None)
@given(st.sampled_from(SAMPLES), st.randoms(use_true_random=False))
def test_an_accident_is_read_right_or_refused(text: str, random: Random) -> None:
    """K3: of each mutated file comes the tool that its text says, or a `DefinitionError`."""
    assert isinstance(judge(mutant(text, random)), tuple | DefinitionError)


@settings(max_examples=share_of(100), deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_bytes_are_read_right_or_refused(text: str, data: st.DataObject) -> None:
    """K3: a byte that is changed, anywhere, makes no other exception either."""
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(judge(bytes(raw)), tuple | DefinitionError)


@settings(max_examples=share_of(300), deadline=None)
@given(st.text(alphabet="ab:-[]{}#&*!|>'\"% \n\t,?0.~<1x\\", max_size=40))
def test_the_value_of_any_text(text: str) -> None:
    """K3: not only tools: whatever text is read has the value of the independent reading."""
    documents, problems = parse_yaml(text, "x")
    if not problems:
        found = [document.value for document in documents]
        assert is_same(found, read_values(text))


STEP = 3 if IS_WHOLE else 29
"""Bytes from one cut to the next: neither fits an indentation, so that cuts are anywhere."""


@pytest.mark.parametrize("text", SAMPLES)
def test_a_cut_file_is_refused_or_told(text: str) -> None:
    """K3: a file that was cut inside a line is refused, the same tool, or loads with a warning.

    What is left are cuts at the end of a line, behind which nobody can know that more was to come.
    """
    loader, raw = ToolConfigLoader(), text.encode()
    hashes = [tool.definition_hash for tool in loader.load_definitions(raw)]
    silent = 0
    for end in range(0, len(raw), STEP):
        try:
            tools = loader.load_definitions(raw[:end])
        except DefinitionError:
            continue
        is_other = [tool.definition_hash for tool in tools] != hashes
        silent += is_other and not tools[-1].findings
        assert tools[-1].findings or raw[:end].endswith(b"\n")
    assert silent <= raw.count(b"\n") / 2


@pytest.mark.parametrize("text", SAMPLES)
def test_a_cut_file_that_says_where_it_ends_is_refused(text: str) -> None:
    """K3: with %YAML 1.2 at the beginning and ... at the end, no cut makes another tool."""
    loader = ToolConfigLoader()
    body = text.replace("\n...\n---\n", "\n---\n").removeprefix("--- # two tools\n")
    raw = f"%YAML 1.2\n---\n{body}...\n".encode()
    if "\n---\n" in body:
        return
    whole = loader.load_definitions(raw)[0].definition_hash
    for end in range(0, len(raw), STEP):
        try:
            (tool,) = loader.load_definitions(raw[:end])
        except DefinitionError:
            continue
        assert tool.definition_hash == whole


def test_the_judge_finds_what_is_wrong() -> None:
    """The comparison is no empty one: each field that differs is told."""
    (tool,) = ToolConfigLoader().load_tools(SAMPLES[0])
    (value,) = read_values(SAMPLES[0])
    assert differences(tool, value) == []
    for key, other in [("name", "x"), ("timeout", 12), ("tags", ["no"]), ("output", "string")]:
        assert [text.partition(":")[0] for text in differences(tool, value | {key: other})][-1] == (
            key if key != "name" else "name"
        )
    assert differences(tool, value | {"parameters": value["parameters"][1:]})
