"""Where does a person open the studio of a server that runs?"""

from __future__ import annotations

import sys
from typing import Any


def announce_studio(app: Any, url: str) -> None:
    """Write the address at which a browser opens the studio; a used one is followed by another.

    Args:
        app: What `create_app` returned.
        url: Where it is served.
    """
    studio = app.studio
    if studio is None:
        return

    def write_link() -> None:
        sys.stderr.write(f"studio: {url}{studio.make_link()}\n")
        sys.stderr.flush()

    if studio.sign_ins is not None:
        studio.sign_ins.on_code_used = write_link
    write_link()
