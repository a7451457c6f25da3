"""The noise an audit makes, for whoever has no audit: the endpoint and the command."""

import random
from collections.abc import Callable, Sequence

from seatrial.contracts.noise import COMBINED, Attacker, Noise
from seatrial.contracts.perturb import NOISEMAKERS, Cell
from seatrial.noise.copies import Noisy, noisy_copy
from seatrial.noise.draws import one_of
from seatrial.noise.lexicons import Lacking, Lexicons
from seatrial.noise.perturbing import Perturber
from seatrial.noise.seeding import audit_seeds, noise_family, noise_generator, word_forms
from seatrial.store.seeds import derive_seed


class LackingResourceError(Exception):
    """An attacker lacks what it draws from.

    Attributes:
        lacking: What, and the command that installs it.
    """

    def __init__(self, lacking: Lacking) -> None:
        super().__init__(f"{lacking.resource} is not installed ({lacking.why}): run `{lacking.command}`.")
        self.lacking = lacking


class Noising:
    """Gives text number i the very noise that an audit of the seed gives example i of its dataset.

    Args:
        noise: How it is made.
        attackers: Who may be asked for.
        among: What ``combined`` draws from, in any order.
        lexicons: What they draw from.
        seed: Everything random follows from it.
        is_tagged: Whether sentences are perturbed token by token, a word type in one way.

    Raises:
        LackingResourceError: One of them could not run.
    """

    def __init__(
        self,
        noise: Noise,
        attackers: Sequence[str],
        among: Sequence[Attacker],
        lexicons: Lexicons,
        seed: int,
        *,
        is_tagged: bool,
    ) -> None:
        needed = {*attackers, *(among if COMBINED in attackers else ())}
        if lacking := lexicons.lacking(noise, needed):
            raise LackingResourceError(lacking)
        self._seed = seed
        self._seed_of = audit_seeds(seed)
        self._perturbers = {name: Perturber(name, noise, lexicons, among=among) for name in attackers}
        self._forms: dict[Cell, Callable[[str], str | None]] = {}
        self._is_tagged = is_tagged

    def __call__(self, parts: Sequence[str], cell: Cell, index: int) -> Noisy:
        """Return one perturbed copy of a text.

        Args:
            parts: One text; premise and hypothesis; or the tokens of a sentence.
            cell: Which copy.
            index: Number of the text.
        """
        rng = noise_generator(self._seed_of, *cell, index)
        perturber = self._perturbers[cell.attacker]
        form = self._form(cell) if self._is_tagged else None
        return noisy_copy(perturber, parts, cell.level, rng, form)

    def mixed(self, levels: Sequence[float], draw: int, index: int) -> Cell:
        """Return the attacker and the level a text meets in a mixed file: each drawn uniformly, for each text anew.

        In which order attackers and levels were asked for changes nothing.
        """
        rng = random.Random(derive_seed(self._seed, noise_family(), f"mix {draw}", index))  # noqa: S311 - not for secrets
        asked = [name for name in NOISEMAKERS if name in self._perturbers]
        return Cell(one_of(asked, rng), one_of(sorted(levels), rng), draw)

    def _form(self, cell: Cell) -> Callable[[str], str | None]:
        if cell not in self._forms:
            self._forms[cell] = word_forms(self._perturbers[cell.attacker], self._seed_of, *cell)
        return self._forms[cell]
