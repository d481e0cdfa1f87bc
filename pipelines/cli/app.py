"""The command `assay`: reads the command line, calls the function, prints what came of it.

Exit status: 0 done; 1 finished with failed shards, or with rows that `--strict` does not accept;
2 the request was wrong (one line on standard error); 130 interrupted from the keyboard. Progress
goes to standard error, results to standard output. Each command is in `pipelines.cli`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import click

from pipelines.cli import agreement, import_data, listing, reproduce, score, train
from pipelines.cli.common import DONE, INTERRUPTED, NOT_ACCEPTED, WRONG_REQUEST, fail, sentence_of
from sms.naming import nearest

# Everything heavier is imported by the command that needs it, so that `--help` is quick.


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    status = run(sys.argv[1:] if arguments is None else arguments)
    gc.freeze()  # spares the interpreter a last garbage collection at exit
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status; what is wrong is said in one line."""
    try:
        status = app.main(args=list(arguments), prog_name="assay", standalone_mode=False)
    except click.NoSuchOption as error:
        return fail(f"no such option `{error.option_name}`; {_in_its_place(error)}", WRONG_REQUEST)
    except click.ClickException as error:
        return fail(error.format_message(), WRONG_REQUEST)
    except click.Abort:
        return fail("interrupted", INTERRUPTED)
    except (ValueError, OSError) as error:
        return fail(sentence_of(error), WRONG_REQUEST)
    except RuntimeError as error:
        return fail(sentence_of(error), NOT_ACCEPTED)
    return status if isinstance(status, int) else DONE


ELSEWHERE = {
    "--num-gpus": "use `--workers N` and `--gpus-per-worker G`",
    "--gpus": "use `--workers N` and `--gpus-per-worker G`",
    "--batch-size": "there is nothing to set: a batch is as large as the memory allows",
    "--model": "name the model in a metric or as `--encoder hf:PATH_OR_ID`",
    "--refs": "`--columns reference=NAME` names the column of the references",
    "--predictions": "`--columns candidate=NAME` names the column of the summaries",
}
"""What to write instead of an option of another tool."""


def _in_its_place(error: click.NoSuchOption) -> str:
    command = error.ctx.command if error.ctx else app
    if error.option_name in ELSEWHERE:
        return ELSEWHERE[error.option_name]
    options = [option for parameter in command.params for option in parameter.opts]
    near = nearest(error.option_name, [one for one in options if one.startswith("--")])
    whole = "assay" if command is app else f"assay {command.name}"
    return near if near.startswith("did") else f"see `{whole} --help`"


class _Group(click.Group):
    """Names the nearest command when there is none of that name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(f"no such command `{name}`; {nearest(name, self.commands)}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    package_name="assay", message="assay %(version)s", help="Show the version and exit."
)
@click.pass_context
def app(ctx: click.Context) -> None:
    """Score summaries, and find out which metric agrees with people."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for _module in (score, train, agreement, listing, import_data, reproduce):
    for _command in vars(_module).values():
        if isinstance(_command, click.Command):
            app.add_command(_command)


if __name__ == "__main__":
    main()
