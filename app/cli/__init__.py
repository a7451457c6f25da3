"""The ``seatrial`` command: run the service, and use one from a shell."""

import sys

import click

from app.cli.activity import activity
from app.cli.attest import attest
from app.cli.audits import audit, judge
from app.cli.compare import compare
from app.cli.convert import convert
from app.cli.database import migrate
from app.cli.datasets import datasets
from app.cli.deletions import sweep, tombstones
from app.cli.doctor import doctor
from app.cli.exits import BadRequestError, CouldNotRunError, database_trouble
from app.cli.gate import gate
from app.cli.hardenings import harden
from app.cli.health import health
from app.cli.keys import keys
from app.cli.leaderboard import leaderboard
from app.cli.models import models
from app.cli.perturb import perturb
from app.cli.plans import plan
from app.cli.policies import baselines, policies
from app.cli.projects import projects
from app.cli.replay import replay
from app.cli.resources import resources
from app.cli.search import search, tag
from app.cli.serve import serve
from app.cli.showing import escape_error
from app.cli.signing_keys import signing
from app.cli.verify import verify
from app.cli.whole_file import READER_GONE, forget_stdout
from app.cli.worker import worker
from seatrial.store.settings_errors import InvalidSettingsError


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        """Run a command; a reader of its output that has left, as `head` does, is no failure."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            escape_error(error)
            raise
        except BrokenPipeError:
            # Click would end with 1, which is what `gate` and `judge` say of a bad model.
            forget_stdout()
            sys.exit(READER_GONE)
        except InvalidSettingsError as error:
            raise BadRequestError(f"invalid settings: {error}") from None
        except Exception as error:
            if (told := database_trouble(error)) is None:
                raise
            raise CouldNotRunError(told) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="seatrial", prog_name="seatrial")
def main() -> None:
    """Put classifiers through a sea trial: attack and certify a model over HTTP before it ships.

    `gate` answers a pipeline's one question, may this model ship, with a service of its own or a running one; `convert`
    makes a model of a state dict; `replay` runs an audit again and compares; `perturb` writes texts with noise. `serve`
    runs everything on one machine. The other commands either maintain an installation (migrate, worker, health, doctor,
    keys, projects, resources, sweep) or talk to a running service over HTTP (models, datasets, audit, judge, policies,
    baselines, leaderboard, compare, attest, search, tag, plan, harden, tombstones, activity). `verify` checks a signed
    verdict with neither.
    """


for command in (
    *(gate, verify, convert, replay, perturb, serve, worker, migrate, health, doctor, keys, projects, resources),
    *(models, datasets, audit, judge, policies, baselines, leaderboard, compare, attest),
    *(search, tag, plan, harden, tombstones, activity, sweep),
):
    main.add_command(command)
keys.add_command(signing)
