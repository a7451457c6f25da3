"""What is stored of a request: what was asked, and what identifies the computation."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from seatrial.contracts.endpoints import ENDPOINT
from seatrial.store.salts import DRAWN, GIVEN, draw_salt

if TYPE_CHECKING:
    from app.audits.submitting import Plan


def stored_spec(planned: "Plan") -> tuple[dict[str, Any], str]:
    """Return the specification of an audit as it is stored, and its digest."""
    request = planned.request
    # Where it stands in the queue is no part of what is computed.
    spec = request.model_dump(mode="json", exclude={"priority"})
    # As audits of before are written, which had no salt, all were measured, and as a whole.
    unsaid = [(GIVEN, request.salt is None), ("reuse", not request.reuse), ("stop", request.stop is None)]
    for name in (name for name, is_unsaid in unsaid if is_unsaid):
        del spec[name]
    if request.stop is not None and planned.policy is not None:
        # It says how much is measured: whoever runs the audit again needs it, whatever its name means by then.
        spec["policy"] = planned.policy.document
    drawn = {DRAWN: draw_salt()} if planned.model.format == ENDPOINT and request.salt is None else {}
    # Of the request: the same one has the same digest, whatever was drawn for it.
    return spec | drawn, _digest(planned, spec)


def _digest(planned: "Plan", spec: dict[str, Any]) -> str:
    """Return what identifies the computation: the request and the bytes behind every id it names.

    What it is judged by is no part of it: the same numbers under another policy are the same numbers. But where the
    policy decides how many examples are measured. Nor is whether records may be taken over: they are the same records.
    """
    computed = {name: value for name, value in spec.items() if name not in ("baseline", "reuse")} | {"policy": None}
    if planned.request.stop is not None and planned.policy is not None:
        computed |= {"policy": planned.policy.source.digest, "baseline": spec["baseline"]}
    named = {
        "spec": computed,
        "model": planned.model.digest,
        "manifest": planned.model.manifest,
        "dataset": planned.dataset.digest,
        "further": {pointer: row.digest for pointer, row in planned.further.items()},
    }
    canonical = json.dumps(named, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
