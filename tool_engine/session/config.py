"""What may one conversation do, and how much of it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from tool_engine.approval.policy import PermissionRule
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.json.kinds import check_kinds
from tool_engine.model.permission import Permission, check_no_client
from tool_engine.model.result import ResultShow
from tool_engine.protocols.registry import check_protocol

_MODES: Final = ("auto", "manual")
_LANGUAGES: Final = ("en", "zh")
_ALL: Final = -1
SHOWS: Final = tuple(each.value for each in ResultShow)
"""The values of `show`, each showing less than the one before."""
_COUNTS: Final = ("max_iterations", "max_calls_per_turn", "capacity")
_OPTIONAL_COUNTS: Final = ("max_calls", "max_tokens")
_SEED_KEYS: Final = {
    "toolToggles": "tool_toggles",
    "defaultToolEnabled": "default_tool_enabled",
    "maxIterations": "max_iterations",
    "requireConfirmation": "require_confirmation",
    "parallelExecution": "parallel_execution",
    "groupDefaults": "group_toggles",
    "toolDefaults": "tool_toggles",
}


class _ToolCallFields(msgspec.Struct, frozen=True, metaclass=KnownFields):
    """The fields of the founding document, in its order. A5-A12."""

    enabled: bool = True
    """Whether tools are on at all; if not, no tool is shown to a model or called."""
    mode: str = "auto"
    """`auto`, or `manual`: each call needs approval, as with `require_confirmation`."""
    tool_toggles: dict[str, bool] = {}
    """Tool -> whether it is on; overrides the default and the groups."""
    default_tool_enabled: bool = True
    """Whether a tool without a toggle is on."""
    max_iterations: int = 10
    """The most rounds of one turn: requests to the model that may lead to calls."""
    timeout: float = 30.0
    """Seconds for each call; a tool's own shorter timeout still holds."""
    require_confirmation: bool = False
    """Whether each call needs approval: the session's `ask_always`."""
    parallel_execution: bool = True
    """Whether read-only calls of one reply run at the same time; others keep their order."""
    protocol: str = "vcp"
    """The protocol for showing tools to a model by default: one of `protocol_names()`."""


_MOST_RULES: Final = 1_000


class ToolCallConfig(_ToolCallFields, frozen=True, kw_only=True):
    """The settings of one conversation: immutable JSON values.

    What is toggled later changes the session's own copy.

    Raises:
        ConfigurationError: A value is invalid; the message names it.
    """

    toggles_by_tool_id: bool = False
    """Whether a toggle also covers the methods of a tool without their own: `web_page` for
    `web_page_read`. Settings with `toolToggles` have it.
    """
    group_toggles: dict[str, bool] = {}
    """Group -> whether it is on; overrides the group's definition. S22."""
    default_group_enabled: bool | None = None
    """Whether groups without a toggle are on; None: as their definitions say. S21."""
    permission: Permission | None = None
    """The permission for tools without a permission of their own. Here and below, a word such as
    `"ask_always"` stands for `Permission(execution="ask_always")`.
    """
    group_permissions: dict[str, Permission] = {}
    tool_permissions: dict[str, Permission] = {}
    rules: dict[str, Permission] = {}
    """`tool`, `tool:param=glob`, each perhaps with `::SilentReject` -> what holds; a list of
    `PermissionRule` stands for that. U32."""
    approval_timeout: float = 300.0
    """Seconds after which an unanswered request is refused."""
    limit: int = 8000
    """The most characters of a result that a model reads; 0 or -1: all. U38."""
    tool_limits: dict[str, int] = {}
    show: str = "full"
    """How much of a result a model reads at once, where the tool says nothing: `full`, `summary` or
    `none`, which leave its content unread in its variable.
    """
    tool_show: dict[str, str] = {}
    """Tool -> the same, whatever its definition says."""
    capacity: int = 1000
    """The most variables that are kept. U40."""
    max_calls_per_turn: int = 50
    """The most calls of one turn. U47."""
    max_calls: int | None = None
    """The most calls of the whole conversation."""
    max_uses: dict[str, int] = {}
    """Tool -> the most calls of it in the conversation; overrides its definition's `max_uses`."""
    max_tokens: int | None = None
    """The most tokens of the whole conversation, as its models count them."""
    max_seconds: float | None = None
    """Seconds for one turn, from the user's message to the answer."""
    hint_at: int = 2
    """The repetition of calls with equal results at which the model gets a hint. U47."""
    stop_at: int = 4
    """The repetition at which the turn ends."""
    language: str = "en"
    """The language of the session's own messages to the model: `en` or `zh`."""

    def __post_init__(self) -> None:
        self._read_permissions()
        check_kinds(self)
        check_choice("mode", self.mode, _MODES)
        check_choice("language", self.language, _LANGUAGES)
        check_protocol(self.protocol)
        check_count("limit", self.limit, minimum=_ALL)
        for tool, limit in self.tool_limits.items():
            check_count(f"tool_limits[{tool!r}]", limit, minimum=_ALL)
        check_choice("show", self.show, SHOWS)
        for tool, show in self.tool_show.items():
            check_choice(f"tool_show[{tool!r}]", show, SHOWS)
        for name in _COUNTS:
            check_count(name, getattr(self, name), minimum=1)
        for name in _OPTIONAL_COUNTS:
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), minimum=1)
        for tool, most in self.max_uses.items():
            check_count(f"max_uses[{tool!r}]", most, minimum=1)
        check_count("hint_at", self.hint_at, minimum=2)
        check_count("stop_at", self.stop_at, minimum=self.hint_at)
        check_timeout("timeout", self.timeout)
        check_timeout("approval_timeout", self.approval_timeout)
        if self.max_seconds is not None:
            check_timeout("max_seconds", self.max_seconds)
        self.permission_rules()

    def _read_permissions(self) -> None:
        if self.permission is not None:
            made = _make_permission("permission", self.permission)
            msgspec.structs.force_setattr(self, "permission", made)
        for name in ("group_permissions", "tool_permissions", "rules"):
            said = getattr(self, name)
            if name == "rules":
                said = _read_rules(said)
            if not isinstance(said, Mapping):
                raise ConfigurationError(f"{name} must be a mapping, got {said!r}")
            made_all = {
                key: _make_permission(f"{name}[{key!r}]", each) for key, each in said.items()
            }
            msgspec.structs.force_setattr(self, name, made_all)

    @property
    def asks_always(self) -> bool:
        """Whether calls without another permission need approval. A6, A10."""
        return self.mode == "manual" or self.require_confirmation

    def permission_rules(self) -> list[PermissionRule]:
        """Return the rules, parsed and ready to match.

        Raises:
            ConfigurationError: The text of one is no rule.
        """
        if len(self.rules) > _MOST_RULES:
            raise ConfigurationError(
                f"there are {len(self.rules):,} rules, and each is looked at before each call: at "
                f"most {_MOST_RULES:,}; write a pattern such as write_* in place of many names"
            )
        try:
            return [PermissionRule.parse(text, each) for text, each in self.rules.items()]
        except ConfigurationError as error:
            raise ConfigurationError(f"rules: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values, for `from_dict`."""
        return dict(msgspec.to_builtins(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the settings from JSON values.

        The names of the founding documents are taken, too (`toolToggles`, `groupDefaults`); with
        them, and only with one of them, `timeout` is in milliseconds. A9. What `toolToggles` names
        is a `toolId`, or the name of a tool. A7. S33.

        Raises:
            ConfigurationError: A key is unknown or a value has the wrong type.
        """
        if not isinstance(data, Mapping):
            raise ConfigurationError(f"settings must be a mapping, got {type(data).__name__}")
        named = _rename_keys(data)
        unknown = sorted(map(str, set(named) - set(cls.__struct_fields__)))
        if unknown:
            hint = suggest_near(unknown[0], cls.__struct_fields__)
            raise ConfigurationError(f"these settings are unknown: {', '.join(unknown)}{hint}")
        if any(key in _SEED_KEYS for key in data) and "timeout" in named:
            check_timeout("timeout", named["timeout"])
            named["timeout"] = named["timeout"] / 1000
        if "toolToggles" in data:
            named.setdefault("toggles_by_tool_id", True)
        return cls(**named)


def as_config(config: ToolCallConfig | Mapping[str, Any]) -> ToolCallConfig:
    """Return the settings, given as such or as a mapping.

    A mapping may have the founding document's names, too.

    Raises:
        ConfigurationError: They are none.
    """
    if isinstance(config, ToolCallConfig):
        return config
    if not isinstance(config, Mapping):
        raise ConfigurationError(f"config must be a ToolCallConfig or a mapping, got {config!r}")
    return ToolCallConfig.from_dict(config)


def find_names_said(settings: ToolCallConfig | Mapping[str, Any]) -> set[str]:
    """Return the settings that are given or differ from their defaults."""
    if isinstance(settings, Mapping):
        return set(_rename_keys(settings))
    default = ToolCallConfig()
    names = ToolCallConfig.__struct_fields__
    return {name for name in names if getattr(settings, name) != getattr(default, name)}


def _rename_keys(data: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, str] = {}
    for key in data:
        name = _SEED_KEYS.get(key, key)
        if name in said:
            raise ConfigurationError(
                f"{said[name]} and {key} say the same setting twice: give one of them"
            )
        said[name] = key
    return {name: data[key] for name, key in said.items()}


def _read_rules(said: Any) -> Any:
    """Return rules as a mapping; leave invalid values as they are."""
    if not isinstance(said, list | tuple) or not all(
        isinstance(each, PermissionRule) for each in said
    ):
        return said
    made = {each.text: each.permission for each in said}
    if len(made) < len(said):
        texts = [each.text for each in said]
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ConfigurationError(f"rules has {twice!r} twice: leave one of them out")
    return made


def _make_permission(name: str, said: object) -> Permission:
    """Return a permission, also from the bare word for `execution`."""
    made = said
    try:
        if isinstance(said, str):
            made = Permission(execution=said)  # type: ignore[arg-type] # it takes texts
        elif isinstance(said, Mapping):
            made = Permission(**said)
    except (ConfigurationError, TypeError) as error:
        raise ConfigurationError(f"{name}: {error}") from error
    if not isinstance(made, Permission):
        raise ConfigurationError(
            f"{name} must be a Permission, or a word such as 'ask_always', got {said!r}"
        )
    check_no_client(made, name)
    return made
