"""What is wrong with the settings, in sentences that name variables and repeat nothing of what they hold.

A setting may be a key, a table of secrets or a URL with a password, and the message of an error at the start goes to
terminals and logs.
"""

import json
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_settings import SettingsError

PREFIX = "SEATRIAL_"
# An @ that is not written as %40 would make the end of a password a host, whose name is told when it is not found.
_DATABASE = re.compile(
    r"(sqlite|postgres(ql)?)(\+\w+)?://([^:/@]*(:[^@]*)?@)?(\[[^]/]*\]|[^][/:?@]*)(:\d*)?(/[^?]*)?(\?.*)?", re.DOTALL
)


_EXAMPLES = {"endpoint_allowed_networks": '["127.0.0.1/32"]', "allowed_paths": '["/srv/models"]'}
"""Values of settings that are lists, as JSON."""


class InvalidSettingsError(ValueError):
    """The process cannot begin: the message has a sentence for each variable that is to blame."""


def invalid_settings(error: ValidationError | SettingsError) -> InvalidSettingsError:
    """Return the error to raise in place of pydantic's, which quotes values."""
    if isinstance(error, ValidationError):
        return InvalidSettingsError("; ".join(_sentences(error)))
    # 'error parsing value for field "endpoint_secrets" from source "EnvSettingsSource"'
    _, _, rest = str(error).partition('field "')
    name = rest.partition('"')[0]
    where = ""
    if isinstance(error.__cause__, json.JSONDecodeError):
        where = f" ({error.__cause__.msg}, line {error.__cause__.lineno}, column {error.__cause__.colno})"
    return InvalidSettingsError(f"{PREFIX}{name.upper()}: must be JSON{_example(name)}{where}")


def _sentences(error: ValidationError) -> Iterable[str]:
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        name, *inside = one["loc"] or ("",)
        message = one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden":
            # Its last step is what somebody wrote, which may be the value.
            inside, message = inside[:-1], "a member that is not known here: leave it out"
        place = "".join(f", {step}" for step in inside)
        yield f"{PREFIX}{str(name).upper()}{place}: {message}{_example(name)}" if name else message


def _example(name: object) -> str:
    written = _EXAMPLES.get(str(name))
    return "" if written is None else f", such as {written}"


def check_database_url(url: str) -> None:
    """Raise for a URL the database library would refuse with a part of it, maybe of its password, in its message.

    Raises:
        ValueError: It is no URL, or nothing here speaks its dialect.
    """
    if not _DATABASE.fullmatch(url):
        raise ValueError(
            "must be a URL like postgresql://user:password@host:5432/name or sqlite:////path; in a password write "
            "@ / : # ? % as %40 %2F %3A %23 %3F %25"
        )


def check_broker_url(url: str) -> None:
    """Raise for a URL the broker's library would refuse with a part of it in its message.

    Raises:
        ValueError: It is no URL of a broker.
    """
    try:
        # Sentinels, and brokers that stand in for each other, are several URLs with semicolons between them.
        parts = [urlsplit(one) for one in url.split(";")]
        is_readable = "://" in url and all(one.port is None or one.port > 0 for one in parts)
    except ValueError:
        is_readable = False
    if not is_readable:
        raise ValueError(
            "must be a URL like redis://:password@host:6379/0; in a password write @ / : # ? % as %40 %2F %3A %23 %3F "
            "%25"
        )
