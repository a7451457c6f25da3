"""Names people use for what wire names stand for: values of qualifiers and parameters."""

from collections.abc import Iterable, Sized

WORDS: dict[str, str] = {
    "clean": "unattacked",
    "over": "over-confidence attack",
    "under": "under-confidence attack",
    "as_served": "as served",
    "label_only": "labels only",
    "calibrated_paper": "calibrated as in the paper",
    "platt_vector": "Platt scaling (vector)",
    "platt_matrix": "Platt scaling (matrix)",
    "deepwordbug": "DeepWordBug",
    "pwws": "PWWS",
    "textfooler": "TextFooler",
    "bae": "BAE",
    "textbugger": "TextBugger",
    "pruthi": "Pruthi",
    "iga": "IGA",
    "clopper-pearson": "Clopper and Pearson",
    "gaffke": "Gaffke's bound",
    "least": "Clopper and Pearson, of the least of several",
    "gaffke-seen": "Gaffke's bound, range not known",
    "resampled": "random weights",
    "widened": "widened bootstrap",
    "paired": "paired comparison",
    "mover": "two intervals combined (MOVER)",
    "exact": "exact computation",
}

DEFENCES: dict[str, str] = {
    "tent": "TENT",
    "dent": "DENT",
    "rmc": "RMC",
    "dann": "DANN",
    "tadv": "TADV",
    "urejectron": "URejectron",
}
"""What people call the shipped defences; the glossary has an entry for each."""


def words(value: str) -> str:
    """Return what people call a value; a remark in brackets behind it is kept.

    >>> words("as_served"), words("input_reduction"), words("textfooler (variant: minilm)")
    ('as served', 'input reduction', 'TextFooler (variant: minilm)')
    """
    name, bracket, remark = value.partition(" (")
    return WORDS.get(name, name.replace("_", " ")) + bracket + remark


def enumerate_words(names: Iterable[str], last: str = "and") -> str:
    """Return names as part of a sentence; nothing for none.

    >>> enumerate_words(["PWWS"]), enumerate_words(["a", "b", "c"], "or"), enumerate_words([])
    ('PWWS', 'a, b or c', '')
    """
    *first, end = list(names) or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def flags_mean(flags: Sized, what: str) -> str:
    """Return what flags say of the number before them, as a sentence after another; nothing where there are none.

    >>> flags_mean(["masked_gradients"], "it may be worse still"), flags_mean([], "it may be worse still")
    (' The flag means that it may be worse still.', '')
    >>> flags_mean(["masked_gradients", "few_steps"], "it may be worse still")
    ' The flags mean that it may be worse still.'
    """
    if not len(flags):
        return ""
    return f" The flag{' means' if len(flags) == 1 else 's mean'} that {what}."
