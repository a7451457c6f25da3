"""Working examples of the bodies of the audit routes, from the families."""

from typing import Any

from seatrial.contracts.models import IMAGES
from seatrial.contracts.registry import families

_OF_IMAGES = {"model": "mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11", "dataset": "dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c12"}
_OF_TEXTS = {"model": "mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c13", "dataset": "dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c14"}

AUDIT_EXAMPLES: dict[str, Any] = {
    asks: {**(_OF_IMAGES if IMAGES in spec.tasks else _OF_TEXTS), **body}
    for spec in families().values()
    for asks, body in spec.audit_examples.items()
}
