"""What spam and tired thumbs do to a text classifier: the Zéroe catalogue of character-level attacks.

The question
    Nobody needs access to a model to write "fr33", to drop a vowel or to hit the key beside the one that was meant. How
    much of a model's score is left when a share of the words is damaged in ways that people read without trouble, and
    does its confidence tell that the input is damaged?

The paper
    S. Eger, Y. Benz: "From Hero to Zéroe: A Benchmark of Low-Level Adversarial Attacks" (2020). Ten attackers (section
    3.1), levels 0.2, 0.5 and 0.8, tagging, inference and toxicity; relative scores s*(p) (section 5), the ranking of
    Table 5, edit distance against harm (Figure 5). Paper and released program differ attacker by attacker; both
    readings are here, ``variant: code`` made the published numbers. Calibration under noise and the flip rate were not
    asked there.

Threat model
    The attacker sees nothing of the model: neither its scores nor its decisions. Noise is drawn once per text, attacker
    and level from the audit's seed; with ``draws`` above 1 so many are tried and the most harmful counts, which is what
    a best-of-k black-box attacker achieves. Of a tagged sentence each word type has one perturbed form, and every token
    keeps its tag.

The guarantee
    Every number is of texts that were written and answered. All attackers and levels are compared on the same examples.
    Intervals are over examples, never over tokens or labels of one; accuracy has the exact one. Which token a tagger no
    longer tags counts as wrong.

Limits
    Noise is not a search: a model that withstands it may fall to whoever looks at its scores (``temperature_attack``).
    Lexicons are English. Attackers change fewer words than the level where words are short or unknown: the shares that
    were changed are published beside the scores, and where they are next to nothing a flag says that nothing was
    tested. What people still read was not asked of people: the edit distance is all that stands for it.
"""
