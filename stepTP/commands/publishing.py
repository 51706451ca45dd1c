"""The command push: a run as a dataset, to a folder or to the hub."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from stepTP.commands.show import InputError, Json, print_json, print_table


def push(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of a dataset that --dry-run wrote.")],
    repo: Annotated[str | None, typer.Argument(help="The dataset on the hub: OWNER/NAME.")] = None,
    dry_run: Annotated[
        Path | None, typer.Option("--dry-run", metavar="FOLDER", help="Write the dataset there, and upload nothing.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the card calls it; the configuration's name by default.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    json: Json = False,
) -> None:
    """Publish a run: Parquet with features, splits and a card. Loads with `datasets.load_dataset`."""
    from stepTP.manifest import is_published, load_manifest
    from stepTP.publish.folder import publish
    from stepTP.publish.hub import upload
    from stepTP.publish.published import load_published

    if (repo is None) == (dry_run is None):
        raise InputError("push: give either OWNER/NAME or --dry-run FOLDER")
    if is_published(run):
        if dry_run is not None:
            raise InputError(f"{run}: is a published dataset already: give OWNER/NAME to upload it")
        assert repo is not None
        manifest, where = load_published(run), upload(run, repo, private=private)
    else:
        called = name or str(load_manifest(run).identity.config.get("name", run.resolve().name))
        with tempfile.TemporaryDirectory(prefix="steptp-push-") as temporary:
            published = publish(run, dry_run or Path(temporary), called)
            manifest = published.manifest
            where = str(dry_run) if repo is None else upload(published.folder, repo, private=private)
    if json:
        print_json({"where": where, "rows": manifest.rows})
        return
    print(where)
    counted = [(config, split, rows) for config, splits in manifest.rows.items() for split, rows in splits.items()]
    print_table(("config", "split", "rows"), counted)
