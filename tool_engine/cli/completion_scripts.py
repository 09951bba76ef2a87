"""What do bash and zsh run to complete a command line?

As typer's scripts do, but for the space that a shell puts behind what it has completed: behind
`city=` comes a value. And zsh, which reads its script at the first Tab, completes at that one too.
What keeps a script from being written is an error as others are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from typer import _completion_shared as typers
from typer import completion as typers_options

from tool_engine.cli.failures import CommandError

_BASH: Final = r"""
%(complete_func)s() {
    local IFS=$'\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" \
                   COMP_CWORD=$COMP_CWORD \
                   %(autocomplete_var)s=complete_bash $1 ) )
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""
_ZSH: Final = r"""
#compdef %(prog_name)s

%(complete_func)s() {
    local line word text
    local -a whole begun
    for line in "${(@f)$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" \
            _TYPER_COMPLETE_FISH_ACTION=get-args \
            %(autocomplete_var)s=complete_fish %(prog_name)s)}"; do
        word="${line%%%%$'\t'*}"
        [[ -n $word ]] || continue
        text="${word//:/\\:}"
        [[ $line == *$'\t'* ]] && text+=":${line#*$'\t'}"
        if [[ $word == *= ]]; then begun+=("$text"); else whole+=("$text"); fi
    done
    (( ${#whole} + ${#begun} )) || { _files; return }
    (( ${#whole} )) && _describe word whole
    (( ${#begun} )) && _describe parameter begun -S ''
}

compdef %(complete_func)s %(prog_name)s
if [[ ${funcstack[1]} == _%(prog_name)s ]]; then
    %(complete_func)s "$@"
fi
"""


_NOW: Final = {
    "bash": "source <(tool-engine --show-completion)",
    "zsh": "autoload -Uz compinit && compinit -D && source <(tool-engine --show-completion)",
    "fish": "tool-engine --show-completion | source",
}
"""By shell: the line that completes in the one at hand, and writes nothing."""


def use_own_scripts() -> None:
    """Have `--install-completion` and `--show-completion` write these."""
    typers._completion_scripts.update(bash=_BASH, zsh=_ZSH)  # noqa: SLF001 - typer has no other way
    vars(typers_options).update(install=_install_script, get_completion_script=_write_script)


def _install_script(
    shell: str | None = None, prog_name: str | None = None, complete_var: str | None = None
) -> tuple[str, Path]:
    shell = _check_shell(shell or typers._get_shell_name())  # noqa: SLF001 - as above
    try:
        return typers.install(shell, prog_name, complete_var)
    except (OSError, UnicodeError, RuntimeError) as error:
        # The home folder may be missing, read-only or another user's.
        file = getattr(error, "filename", None) or f"the start file of {shell}"
        cause = getattr(error, "strerror", None) or error
        cause = "not UTF-8" if isinstance(error, UnicodeError) else cause
        now = _NOW.get(shell, "tool-engine --show-completion")
        raise CommandError(
            f"completion cannot be installed, for {file}: {cause}; mend that, or have it in this "
            f"shell alone with: {now}",
            error_type="cannot_write",
        ) from error


def _write_script(*, prog_name: str, complete_var: str, shell: str) -> str:
    return typers.get_completion_script(
        prog_name=prog_name, complete_var=complete_var, shell=_check_shell(shell)
    )


def _check_shell(shell: str | None) -> str:
    known = sorted(typers._completion_scripts)  # noqa: SLF001 - as above
    if shell in known:
        return shell
    raise CommandError(
        f"there is no completion for {f'the shell {shell}' if shell else 'an unknown shell'}; "
        f"start one of these and type it there: {', '.join(known)}"
    )
