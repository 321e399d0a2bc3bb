"""`mooring completion`: what a shell needs to complete our commands and options."""

import click

__all__ = ["completion"]

EXAMPLES = """\
\b
To have it in every new shell:
  bash   echo 'eval "$(mooring completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(mooring completion zsh)"' >> ~/.zshrc
  fish   mooring completion fish > ~/.config/fish/completions/mooring.fish
"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands and options."""
    from click.shell_completion import ShellComplete, get_completion_class  # noqa: PLC0415 - rarely needed

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    root = click.get_current_context().find_root().command
    # Not kind.source(): for bash that first starts a bash, to complain if it is old.
    script = ShellComplete.source(kind(root, {}, "mooring", "_MOORING_COMPLETE"))
    click.echo(script)
