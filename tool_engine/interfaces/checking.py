"""Does a plugged-in part have what its interface names?"""

from __future__ import annotations

from tool_engine.errors import ConfigurationError


def check_part(name: str, part: object, interface: type) -> None:
    """Check that a part has all names of its interface.

    Args:
        name: What the setting is called.
        part: The part.
        interface: A Protocol.

    Raises:
        ConfigurationError: It lacks something; the message says what.
    """
    names = sorted(each for each in vars(interface) if not each.startswith("_"))
    missing = [each for each in names if not hasattr(part, each)]
    if missing or isinstance(part, type):
        lacks = "it is a class, not an object" if not missing else f"it has no {missing[0]!r}"
        raise ConfigurationError(
            f"{name} must be an {interface.__name__}, got {part!r}: {lacks}; pass an object of a "
            f"class that derives from tool_engine.interfaces.{interface.__name__}, which has what "
            "may be left out"
        )
