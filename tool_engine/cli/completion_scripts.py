"""What do bash and zsh run to complete a command line?

As typer's scripts do, but for the space that a shell puts behind what it has completed: behind
`city=` comes a value. And zsh, which reads its script at the first Tab, completes at that one too.
"""

from __future__ import annotations

from typing import Final

from typer import _completion_shared as typers

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


def use_own_scripts() -> None:
    """Have `--install-completion` and `--show-completion` write these."""
    typers._completion_scripts.update(bash=_BASH, zsh=_ZSH)  # noqa: SLF001 - typer has no other way
