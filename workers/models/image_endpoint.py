"""An image classifier behind somebody's HTTP endpoint, as attacks and certificates meet one: without gradients."""

import torch
from torch import Tensor, nn

from seatrial.contracts.models import ModelManifest
from workers.models import GREY_LEVELS, UnansweredError
from workers.models.endpoint import EndpointClassifier
from workers.models.endpoint_images import encode
from workers.models.image_classifier import ImageClassifier


class ImageEndpoint(ImageClassifier):
    """A classifier whose every forward pass of an image is a question to a server.

    Logits are float32, without a graph. An image the endpoint gives no scores for has NaN: it is errored, never robust.
    Nothing is remembered: equal images are sent as often as they are asked for. What a PNG cannot hold is not sent:
    the model is the server behind rounding to 8 bits, and attacks keep to images that rounding leaves as they are.

    Args:
        endpoint: What asks; its task is of images.
        manifest: Its manifest, with the shape of the images.
        device: Where images are made.

    Attributes:
        endpoint: What asks.
        queries: Images asked about, those left unanswered included.
        failure: Why the last image without scores had none.
    """

    def __init__(self, endpoint: EndpointClassifier, manifest: ModelManifest, device: torch.device) -> None:
        shape = manifest.input_shape
        image_format = getattr(manifest.architecture, "image_format", None)
        if shape is None or image_format is None:
            raise AssertionError("unreachable: a manifest of an image endpoint states a shape and is of an endpoint")
        super().__init__(
            _Question(self),
            labels=endpoint.labels,
            input_shape=(shape[0], shape[1], shape[2]),
            mean=[0.0],
            std=[1.0],
            device=device,
        )
        self.endpoint = endpoint
        self.has_gradients = False
        self.levels = GREY_LEVELS if image_format == "png" else None
        self._image_format = image_format
        self.queries = 0
        self.failure: UnansweredError | None = None

    def ask(self, images: Tensor) -> Tensor:
        """Return logits (batch, classes) float32 of images (batch, channels, height, width); NaN where there are none.

        Raises:
            ValueError: A value is not finite.
        """
        self.queries += len(images)
        answers = self.endpoint.logits(encode(images, self._image_format))
        rows = []
        for answer in answers:
            if isinstance(answer, Tensor):
                rows.append(answer)
            else:
                self.failure = answer
                rows.append(torch.full((self.classes,), torch.nan))
        return torch.stack(rows).to(device=images.device, dtype=torch.float32)

    def check(self, images: Tensor) -> Tensor:
        """Return logits float32 as :meth:`ask` does.

        Raises:
            TargetError: An image has none; the problem names the field of the manifest to look at.
        """
        return torch.stack(self.endpoint.check(encode(images, self._image_format))).float()


class _Question(nn.Module):
    def __init__(self, asking: ImageEndpoint) -> None:
        super().__init__()
        # Not as a member, which a module would look for parameters in.
        self._ask = asking.ask

    def forward(self, images: Tensor) -> Tensor:
        return self._ask(images)
