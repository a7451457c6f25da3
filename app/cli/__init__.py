"""The ``seatrial`` command: run the service, and use one from a shell."""

import click

from app.cli.audits import audit
from app.cli.database import migrate
from app.cli.health import health
from app.cli.keys import keys
from app.cli.language import resources
from app.cli.resources import datasets, models
from app.cli.serve import serve
from app.cli.worker import worker


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="seatrial", prog_name="seatrial")
def main() -> None:
    """Put classifiers through a sea trial: attack and certify a model over HTTP before it ships.

    `serve` runs everything on one machine. The other commands either tend an installation (migrate, worker, health,
    keys, resources) or talk to a running service over HTTP (models, datasets, audit).
    """


for command in (serve, worker, migrate, health, keys, resources, models, datasets, audit):
    main.add_command(command)
