"""`wharfinger token`: what people and programs show to the manager."""

import click

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.remote import ask, remote


@click.group(cls=LazyGroup)
def token() -> None:
    """Create, list and revoke users' tokens.

    \b
    Examples:
      wharfinger token create ada --label laptop
      wharfinger token ls
    """


@token.command()
@click.argument("user", metavar="USER")
@click.option("--label", required=True, metavar="TEXT", help="What it is for.")
@remote
def create(user: str, label: str, url: str | None, as_json: bool) -> Exit:
    """Create a token for a user. It is shown once.

    \b
    Examples:
      wharfinger token create ada --label laptop
      WHARFINGER_TOKEN=$(wharfinger token create ci --label nightly) ./nightly
    """
    created = ask(url, lambda api: api.create_token(user, label=label))
    if as_json:
        output.document(created)
    else:
        output.line(created["token"])
        output.note("shown once; the manager keeps only its hash")
    return Exit.OK


@token.command()
@remote
def ls(url: str | None, as_json: bool) -> Exit:
    """List tokens, without their secrets: your own, or all of them for a superadmin.

    \b
    Example:
      wharfinger token ls
    """
    tokens = ask(url, lambda api: api.tokens())
    if as_json:
        output.document(tokens)
        return Exit.OK
    output.table(
        ("ID", "USER", "LABEL", "AGE"),
        [
            (each["id"], each["user"], each["label"], words.since(each["createdAt"]))
            for each in tokens
        ],
        empty="no tokens",
    )
    return Exit.OK


@token.command()
@click.argument("token_id", metavar="ID")
@remote
def revoke(token_id: str, url: str | None, as_json: bool) -> Exit:
    """End a token: whoever holds it is refused from now on.

    \b
    Example:
      wharfinger token revoke 7c1e
    """
    revoked = ask(url, lambda api: api.revoke_token(token_id))
    if as_json:
        output.document(revoked)
    else:
        output.line(f"token {token_id} is revoked")
    return Exit.OK
