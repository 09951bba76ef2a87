"""In which language and which colours are the pages shown?"""

from __future__ import annotations

from typing import Final

from tool_engine.access.problem import Problem
from tool_engine.studio.rendering import LANGUAGES
from tool_engine.studio.visit import Move, Visit, read_place, show_at

_THEMES: Final = ("light", "dark", "")
_YEAR: Final = 31_536_000


@show_at("POST", "/choices", scope="")
async def keep_choice(visit: Visit) -> Move:
    """Keep a choice in the browser, and go back to the page it was made on."""
    chosen = {
        "studio_language": (visit.form.get("language", "-"), tuple(LANGUAGES)),
        "studio_theme": (visit.form.get("theme", "-"), _THEMES),
    }
    cookies = []
    for name, (value, known) in chosen.items():
        if value in known:
            life = _YEAR if value else 0
            cookies.append(
                f"{name}={value}; Path={visit.root}; Max-Age={life}; HttpOnly; SameSite=Strict"
            )
    if not cookies:
        raise Problem(400, "invalid-form", "there is no such choice")
    return Move(*read_place(visit.form.get("back")), cookies=cookies)


ROUTES = (keep_choice,)
