"""What values of qualifiers are called where another word than their own is needed."""

from seatrial.reporting.words import DEFENCES

VALUES: dict[str, dict[str, str]] = {
    "bound": {"cdf": "CDF certificate", "dkw": "DKW certificate", "standard": "Standard certificate"},
    "attack": {
        "ace_lower_true": "confidence in the true class lowered",
        "ace_raise_true": "confidence in the true class raised",
        "ace_lower_predicted": "confidence in the predicted class lowered",
        "ace_raise_predicted": "confidence in the predicted class raised",
        "transfer_autoattack": "transferred AutoAttack",
        "transfer_pgd": "transferred PGD",
        "transfer_confidence": "transferred PGD for confidence, 14 runs",
        "transfer_cw": "transferred Carlini-Wagner, l_2",
        "brightness": "brightness (no attack)",
        "defence_autoattack": "AutoAttack on the defence",
        "fpa": "FPA",
        "gmsa_avg": "GMSA-AVG",
        "gmsa_min": "GMSA-MIN",
        "apgd-ce": "APGD on the cross-entropy",
        "apgd-dlr": "APGD on DLR",
        "apgd-t": "targeted APGD",
        "fab-t": "targeted FAB",
        "square": "Square",
    },
    "uncertainty": {
        "entropy": "entropy",
        "gini": "Gini, 1 - sum p^2",
        "least_confidence": "1 - max p",
        "smoothed_entropy": "mean entropy of a draw",
    },
    "attacker": {
        "inner_shuffle": "inner shuffle (letters within a word)",
        "full_shuffle": "full shuffle (all letters of a word)",
        "intrude": "intrude (marks between letters)",
        "disemvowel": "disemvowel (vowels left out)",
        "truncate": "truncate (last letter left out)",
        "segment": "segment (spaces left out)",
        "keyboard_typo": "keyboard typo (a neighbouring key)",
        "natural_typo": "natural typo (as people misspell)",
        "phonetic": "phonetic (spelt by sound)",
        "visual": "visual (look-alike letters)",
        "combined": "combined (another attacker for each word)",
    },
    "defence": {"identity": "the static model", **DEFENCES},
}
"""Names of values that mean something else under another qualifier, by qualifier."""

COUNTS: dict[str, str] = {
    "n": "examples",
    "errored": "errored",
    "attacked": "attacked",
    "attacked_n": "answered under attack",
    "ood_n": "outliers answered",
    "validation_n": "validation examples, never attacked",
    "served_only": "right under attack as served alone",
    "lowest_only": "right under attack in the lowest arm alone",
    "clean_n": "answered without an attack",
    "clean_correct": "right without an attack",
    "flipped": "decided differently under attack",
    "flipped_over": "decided differently under the over-confidence attack",
    "saturated": "given a probability of exactly 1",
    "tempered_n": "attacked through scaled logits",
    "tempered_errored": "errored there",
    "tempered_crossed": "moved across the decision boundary there",
    "worst_n": "compared under all attacks",
    "untagged": "tokens without a tag",
    "abstained": "not certified: no class has half of the draws",
    "draws": "draws of noise",
    "robust_accuracy_n": "attacked by AutoAttack",
    "robust_accuracy_errored": "errored under AutoAttack",
    "robust_accuracy_correct": "right before AutoAttack",
    "robust_accuracy_held": "withstood AutoAttack",
    "robust_accuracy_first_n": "attacked in the first phase",
    "robust_accuracy_first_errored": "errored in the first phase",
    "robust_accuracy_first_correct": "right before the first phase",
    "robust_accuracy_first_standing": "withstood the first phase",
    "outliers_n": "outliers",
    "outliers_errored": "outliers that errored",
}
"""What a check counted, in words; a count that is not here is called by its name."""


def count_words(name: str) -> str:
    """Return what people call a count.

    >>> count_words("clean_correct"), count_words("queries_sent")
    ('right without an attack', 'queries sent')
    """
    return COUNTS.get(name, name.replace("_", " "))
