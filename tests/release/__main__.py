"""Run by `make release`: builds a release, checks it as its users will have it, and stops there.

Exits with 1 when something is wrong; nothing is published in either case.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.release.artifacts import check_changelog, check_sdist, check_wheel

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MOST_PACKAGES = 35
"""Packages that the core brings, beside itself."""
TWINE = "twine>=6.2,<7"
TOOL = """\
name: add
description: Add two numbers.
parameters:
  - {name: first, type: integer, description: A number., required: true}
entry: {type: builtin, handler: echo}
"""
LIMIT = 300.0
"""Seconds for one command."""


class CommandError(Exception):
    """A command of the release did not succeed."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; it sees nothing of this environment's packages."""
    environment = {key: each for key, each in os.environ.items() if not key.startswith("PYTHON")}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        raise CommandError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def find_uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def list_files(*places: str) -> list[str]:
    return run("git", "ls-files", "--", *places).splitlines()


def build(uv: str) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(uv, "build", "--no-build-isolation", "--python", sys.executable, "-o", DIST)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def check_tree() -> list[str]:
    changed = run("git", "status", "--porcelain").splitlines()
    return [f"{len(changed)} files are not committed: {changed[0].strip()} ..."] if changed else []


def check_description(uv: str, sdist: Path, wheel: Path) -> list[str]:
    """What a registry would refuse of the metadata and the description."""
    run(uv, "tool", "run", "--from", TWINE, "twine", "check", "--strict", sdist, wheel)
    return []


def find_pythons() -> Iterator[tuple[str, str]]:
    """Each version that is here, and its program outside of virtual environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    code = "import sys; print('%d.%d' % sys.version_info[:2], sys._base_executable)"
    for version in PYTHONS:
        # A shim of pyenv on the path works only for versions that are switched on.
        programs: list[str | Path] = [f"python{version}"]
        for program in (*programs, *pyenv.glob(f"{version}.*/bin/python{version}")):
            try:
                found, _, path = run(program, "-c", code).strip().partition(" ")
            except (CommandError, OSError):
                continue
            if found == version:
                yield version, path
                break


def check_installed(uv: str, python: str, package: Path, version: str) -> list[str]:
    """What is wrong with a package in an empty environment, of which only this is left."""
    with tempfile.TemporaryDirectory(prefix="tool-engine-release-") as folder:
        place = Path(folder)
        environment = place / "environment"
        run(uv, "venv", "-q", "--python", python, environment, cwd=place)
        program, own = environment / "bin" / "python", environment / "bin" / "tool-engine"
        run(uv, "pip", "install", "-q", "--python", program, package, cwd=place)
        wrong = []
        said = run(own, "--version", cwd=place).split()[-1]
        if said != version:
            wrong.append(f"tool-engine --version says {said}, not {version}")
        code = "import tool_engine; print(tool_engine.__version__, tool_engine.ToolEngine.__name__)"
        if run(program, "-c", code, cwd=place).split() != [version, "ToolEngine"]:
            wrong.append("import tool_engine gives another version")
        (place / "tools").mkdir()
        (place / "tools" / "add.yaml").write_text(TOOL, encoding="utf-8")
        run(own, "validate", "tools", cwd=place)
        called = run(own, "call", "add", "first=42", cwd=place)
        if "42" not in called:
            wrong.append(f"tool-engine call printed {called[:200]!r}")
        listed = run(uv, "pip", "list", "-q", "--python", program, "--format", "freeze", cwd=place)
        brought = [each for each in listed.split() if not each.startswith("tool-engine")]
        if len(brought) > MOST_PACKAGES:
            wrong.append(f"the core brings {len(brought)} packages: more than {MOST_PACKAGES}")
        return wrong


@contextmanager
def reporting(what: str, problems: list[str]) -> Iterator[Callable[[list[str]], None]]:
    """Prints how one step ended, and keeps what was wrong."""
    wrong: list[str] = []
    try:
        yield wrong.extend
    except CommandError as error:
        wrong.append(str(error))
    problems += wrong
    print(f"{'wrong' if wrong else 'ok':>5}  {what}", flush=True)


def main() -> int:
    """Build and check; print what is wrong, or how to go on."""
    uv, problems = find_uv(), list[str]()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    print(f"tool-engine {version}")
    with reporting("all is committed", problems) as note:
        note(check_tree())
    with reporting("the changelog has this version, and what an upgrade takes", problems) as note:
        note(check_changelog((ROOT / "docs" / "changelog.md").read_text("utf-8"), version))
    sdist, wheel = build(uv)
    package = list_files("tool_engine")
    with reporting("the wheel holds the package, and nothing else", problems) as note:
        note(check_wheel(wheel, package, version))
    with reporting("the source distribution holds what the wheel is made of", problems) as note:
        note(check_sdist(sdist, package, version))
    with reporting("a registry takes the description", problems) as note:
        note(check_description(uv, sdist, wheel))
    pythons = list(find_pythons())
    for number, (found, python) in enumerate(pythons):
        for each in (wheel, sdist) if number == 0 else (wheel,):
            kind = "wheel" if each is wheel else "source distribution"
            with reporting(
                f"the {kind} works in an empty environment of {found}", problems
            ) as note:
                note(check_installed(uv, python, each, version))
    lacking = sorted({*PYTHONS} - {found for found, _ in pythons})
    if lacking:
        print(f"    -  not tried, because it is not here: {', '.join(lacking)}")
    for problem in problems:
        print(f"\n{problem}", file=sys.stderr)
    if problems:
        return 1
    print("\nNothing was published. To do so:\n")
    print(f"  git tag -a v{version} -m 'tool-engine {version}' && git push origin v{version}")
    print(f"  uv publish {' '.join(str(each.relative_to(ROOT)) for each in (sdist, wheel))}\n")
    for each in (sdist, wheel):
        print(f"sha256 {hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
