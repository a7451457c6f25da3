"""FAB-T: the fast adaptive boundary attack towards one class at a time (Croce and Hein, ICML 2020, "Minimally ...")."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from seatrial.contracts.costs import Passes
from workers.attacks.autoattack.attempts import ActiveExamples, Attempt, in_halves
from workers.attacks.autoattack.balls import lengths
from workers.attacks.autoattack.dlr import lead
from workers.attacks.gradients import Model, input_gradient
from workers.attacks.losses import margin
from workers.attacks.regions import Box, Norm, per_example
from workers.attacks.robust_accuracy import is_wrong


def to_hyperplane(norm: Norm, images: Tensor, normal: Tensor, offset: Tensor, box: Box) -> Tensor:
    """Return the shortest moves (n, ...) from ``images`` to a hyperplane each, without leaving the box.

    Where the hyperplane does not meet the box, the move to the point of the box nearest to it in value.

    The move of length tau is, by coordinate, tau (l_inf) or tau |w_i| (l_2) towards the hyperplane, cut where the
    box ends (sec. 3.1, eq. 5). What it gains, sum_i |w_i| min(tau v_i, room_i), is concave and piecewise linear in
    tau: Newton's method from 0 never overshoots and is exact on the last piece, with no sorting of coordinates.

    Args:
        norm: In which the move is shortest.
        images: (n, ...) in the box.
        normal: (n, ...) w.
        offset: (n,) signed value w.x + b at the image; 0 on the hyperplane.
        box: Least and greatest valid pixel.
    """
    x, w = images.flatten(1), normal.flatten(1)
    direction = -w.sign() * offset.sign().unsqueeze(1)
    room = torch.where(direction > 0, box[1] - x, x - box[0]).clamp_min(0.0)
    # Scaled to a largest weight of 1: the square of a float32 gradient below 1e-23 is 0.
    scale = w.abs().amax(1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
    weight = w.abs() / scale
    speed = (weight > 0).to(weight) if norm == "linf" else weight
    wanted, tau = offset.abs() / scale.squeeze(1), torch.zeros_like(offset)
    # Every step ends on a later piece than the last, and there are no more pieces than pixels.
    for _ in range(x.shape[1] + 1):
        moved = torch.minimum(tau.unsqueeze(1) * speed, room)
        # A coordinate at the end of its room gains nothing more.
        slope = (weight * speed * (moved < room)).sum(1)
        missing = wanted - (weight * moved).sum(1)
        further = tau + missing / slope.clamp_min(torch.finfo(w.dtype).tiny)
        # What rounding alone leaves missing is not worth another look.
        grows = (missing > wanted * torch.finfo(w.dtype).eps) & (slope > 0) & (further > tau)
        if not bool(grows.any()):
            break
        tau = torch.where(grows, further, tau)
    enough = (wanted <= (weight * room).sum(1)).unsqueeze(1)
    moved = torch.where(enough, moved, room * (weight > 0))
    return (direction * moved).view_as(images)


@dataclass(frozen=True)
class FAB:
    """An attack that looks for the nearest misclassified image; it is deterministic.

    Guarantee: every returned image is in the box, and, where ``epsilon`` is given and the example is broken, within
    ``epsilon``. Limit: it follows gradients, so a model that hides them is not attacked.

    Attributes:
        norm: Norm of the distance.
        epsilon: An example is broken, and leaves, at its first misclassified image within this distance. None: every
            step is taken and any misclassified image counts; the nearest is returned.
        steps: Linearisations.
        alpha_max: Most weight of the step from the original.
        overshoot: Eta, how far beyond the linearised boundary a step goes.
        backward: Beta, the share of the way from the original that is kept after a misclassified image.
        search_steps: Secant steps on the line from the original to the nearest found, at the end.
        box: Least and greatest valid pixel.

    Raises:
        ValueError: A number is out of range.
    """

    norm: Norm
    epsilon: float | None = None
    steps: int = 100
    alpha_max: float = 0.1
    overshoot: float = 1.05
    backward: float = 0.9
    search_steps: int = 3
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        within = 0 <= self.alpha_max <= 1 <= self.overshoot and 0 < self.backward < 1 and self.search_steps >= 0
        if not (within and self.steps >= 1 and (self.epsilon is None or self.epsilon >= 0)):
            raise ValueError(f"not an attack: {self}")

    def passes(self) -> Passes:
        """Return what one example and target cost at most: a look before and after every step, and the last search."""
        return Passes(forward=self.steps + self.search_steps, backward=self.steps)

    def run(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        targets: Tensor,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Attempt:
        """Attack a batch towards ``targets`` (n,); a batch that does not fit in memory is halved.

        Args:
            model: Images to logits.
            images: (n, ...) floating point, in the box, classified right; not changed.
            labels: (n,) int64. Any other class counts, not the target's alone.
            targets: (n,) int64, the class whose boundary is walked to.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Returns:
            Attempt: With the nearest misclassified image; the original where none was found.

        Raises:
            ValueError: An empty batch.
        """
        if len(images) == 0:
            raise ValueError("nothing to attack: 0 images")

        def piece(start: int, stop: int) -> Attempt:
            part = slice(start, stop)
            return _Run(self, model, images[part].detach(), labels[part], targets[part], check_cancelled).attempt()

        return in_halves(piece, len(images))

    def nearest(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        targets: Tensor,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Attempt:
        """Return the nearest misclassified image over all targets (n, targets), for searches without ``epsilon``."""
        whole = Attempt.none_yet(images)
        everyone = torch.arange(len(images), device=images.device)
        for target in targets.T:
            found = self.run(model, images, labels, target, check_cancelled=check_cancelled)
            closer = lengths(self.norm, found.images - images) < lengths(self.norm, whole.images - images)
            worse = found.broken & whole.broken & ~closer
            found.images = torch.where(per_example(worse, images), whole.images, found.images)
            whole.add(everyone, found)
        return whole


@dataclass
class _Active(ActiveExamples):
    position: Tensor
    origin: Tensor
    labels: Tensor
    targets: Tensor
    images: Tensor
    nearest: Tensor
    distance: Tensor
    margin_right: Tensor
    margin_nearest: Tensor


class _Run:
    """One batch towards one target each."""

    def __init__(
        self,
        fab: FAB,
        model: Model,
        origin: Tensor,
        labels: Tensor,
        targets: Tensor,
        check_cancelled: Callable[[], None],
    ) -> None:
        self.fab, self.model, self.check_cancelled = fab, model, check_cancelled
        self.found = Attempt.none_yet(origin)
        never = torch.full_like(origin.flatten(1)[:, 0], torch.inf)
        position = torch.arange(len(origin), device=origin.device)
        self.active = _Active(
            position, origin, labels, targets, origin, origin, never, torch.zeros_like(never), torch.zeros_like(never)
        )

    def attempt(self) -> Attempt:
        for step in range(self.fab.steps):
            stepped = self._step(is_first=step == 0)
            if len(self.active.position) == 0:
                return self.found
            self._look(stepped)
            if len(self.active.position) == 0:
                return self.found
        for step in range(self.fab.search_steps):
            self._secant(is_first=step == 0)
            if len(self.active.position) == 0:
                return self.found
        self._leave(torch.ones_like(self.active.labels, dtype=torch.bool))
        return self.found

    def _step(self, *, is_first: bool) -> Tensor:
        """Return the images after one step to the linearised boundary, biased towards the originals (eq. 8)."""
        active, fab = self.active, self.fab
        self.check_cancelled()
        inputs = active.images.detach().requires_grad_()
        with torch.enable_grad():
            logits = self.model(inputs)
            value = lead(logits, active.labels, active.targets)
        normal = input_gradient(value, inputs).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        value, logits = value.detach(), logits.detach()
        self.found.backward[active.position] += 1
        if is_first:
            self.found.zero_gradient = (normal == 0).flatten(1).all(1)
            active.margin_right = margin(logits, active.labels)
        at_origin = value + (normal * (active.origin - active.images)).flatten(1).sum(1)
        moves = to_hyperplane(
            fab.norm,
            torch.cat([active.images, active.origin]),
            torch.cat([normal, normal]),
            torch.cat([value, at_origin]).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0),
            fab.box,
        )
        move, move_of_origin = moves.chunk(2)
        near, far = lengths(fab.norm, move), lengths(fab.norm, move_of_origin)
        alpha = (near / (near + far).clamp_min(torch.finfo(near.dtype).tiny)).clamp_max(fab.alpha_max)
        bias = per_example(alpha, move)
        stepped = (1 - bias) * (active.images + fab.overshoot * move)
        stepped += bias * (active.origin + fab.overshoot * move_of_origin)
        non_finite = ~logits.isfinite().all(1)
        if bool(non_finite.any()):
            self.found.non_finite[active.position] |= non_finite
            self._leave(non_finite)
            stepped = stepped[~non_finite]
        return stepped.clamp_(*fab.box)

    def _look(self, stepped: Tensor) -> None:
        """Keep what is misclassified and nearer than before; go back towards the original from there."""
        active = self.active
        wrong, _ = self._take_in(stepped)
        back = active.origin + self.fab.backward * (stepped - active.origin)
        active.images = torch.where(per_example(wrong, stepped), back, stepped)
        self._leave_reached()

    def _take_in(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return which of ``images`` are misclassified, the nearest of them kept, and all margins."""
        active = self.active
        self.check_cancelled()
        with torch.no_grad():
            logits = self.model(images)
        self.found.forward[active.position] += 1
        non_finite = ~logits.isfinite().all(1)
        self.found.non_finite[active.position] |= non_finite
        wrong = is_wrong(logits, active.labels) & ~non_finite
        distance = lengths(self.fab.norm, images - active.origin)
        nearer = wrong & (distance < active.distance)
        active.distance = torch.where(nearer, distance, active.distance)
        active.nearest = torch.where(per_example(nearer, images), images, active.nearest)
        margins = margin(logits, active.labels)
        active.margin_nearest = torch.where(nearer, margins, active.margin_nearest)
        return wrong, margins

    def _secant(self, *, is_first: bool) -> None:
        """Look where the margin, were it linear between the original side and the nearest found, would be zero."""
        active = self.active
        if is_first:
            # From here on ``images`` is the end of the line that is classified right.
            active.images = active.origin
            self._leave(active.distance.isinf())
            if len(active.position) == 0:
                return
        share = active.margin_right / (active.margin_right - active.margin_nearest).clamp_min(1e-30)
        between = active.images + per_example(share, active.images) * (active.nearest - active.images)
        between = between.clamp_(*self.fab.box)
        wrong, margins = self._take_in(between)
        active.images = torch.where(per_example(wrong, between), active.images, between)
        active.margin_right = torch.where(wrong, active.margin_right, margins)
        self._leave_reached()

    def _leave_reached(self) -> None:
        active = self.active
        done = self.found.non_finite[active.position]
        if self.fab.epsilon is not None:
            done = done | (active.distance <= self.fab.epsilon)
        self._leave(done)

    def _leave(self, leaving: Tensor) -> None:
        """Write down the examples where ``leaving`` is true, and drop them."""
        if not bool(leaving.any()):
            return
        active, found = self.active, self.found
        position = active.position[leaving]
        limit = torch.inf if self.fab.epsilon is None else self.fab.epsilon
        broken = active.distance.isfinite() & (active.distance <= limit)
        found.images[position] = torch.where(per_example(broken, active.images), active.nearest, active.origin)[leaving]
        found.broken[position] = broken[leaving] & ~found.non_finite[position]
        active.keep(~leaving)
