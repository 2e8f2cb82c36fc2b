"""`toolcrib notifications`: try the webhooks of the project."""

from __future__ import annotations

import typer

from toolcrib.cli.output import Exit, fail, show
from toolcrib.cli.runtime_options import NOTIFY_OPTIONS, RuntimeOptions, takes_runtime_options
from toolcrib.errors import UsageError

app = typer.Typer(help="Try the webhooks that hear of waiting calls.", no_args_is_help=True)


@app.callback()
def notifications() -> None:
    """Try the webhooks that hear of waiting calls."""


@app.command()
@takes_runtime_options(*NOTIFY_OPTIONS)
def test(options: RuntimeOptions) -> None:
    """Send a sample of each event to the webhooks of the project, and to that of --notify-url.

    The exit status is 1 when one of them did not take it. Nothing is tried a second time.

    Example: toolcrib notifications test

    Example: toolcrib notifications test --notify-url-file slack-url --notify-format slack
    """
    import time

    from toolcrib.notifications.delivery import NotAccepted, post, request_of
    from toolcrib.notifications.notice import sample_notice
    from toolcrib.project.runtime import notifications_of

    try:
        webhooks = notifications_of(options)
    except UsageError as error:
        fail(str(error))
    if not webhooks:
        fail("no webhook: write notifications: in toolcrib.yaml, or give --notify-url")
    is_taken = True
    for webhook in webhooks:
        for event in webhook.events:
            now = time.time()
            try:
                post(request_of(sample_notice(event, now), webhook, now))
            except NotAccepted as error:
                is_taken = False
                show(f"{webhook.place} ({webhook.format}) {event}: NOT taken: {error}", "red")
            else:
                show(f"{webhook.place} ({webhook.format}) {event}: taken")
    if not is_taken:
        raise typer.Exit(Exit.FAILED)
