"""A text to perturb, every lexicon there is, and what is refused."""

from typing import Any

import httpx

from seatrial.noise.lexicons import Lexicons
from tests.web.test_problems import assert_problem

TEXT = "The vandalism of a gripping film, in three wonderful acts."
ALL = Lexicons(None)


def refused(client: httpx.Client, **body: Any) -> tuple[str, str]:
    """Return the pointer and the detail of the one error."""
    problem = assert_problem(client.post("/v1/perturb", json=body), 422, "invalid-request")
    (error,) = problem.errors or ()
    return error.pointer, problem.detail
