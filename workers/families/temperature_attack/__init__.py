"""Is a text classifier's robustness an illusion? The temperature-calibrated attack audit.

The question
    An attack on a text model walks by the probabilities it is shown. Divide the logits by 0.01 before the softmax and
    every probability is 0 or 1: no word seems to matter, the search stands still, and the model looks robust although
    not one of its decisions has changed. So may a model trained to extreme confidence, without anybody meaning to. An
    attacker who sees the scores undoes it by one division. How much of the robustness is left then?

The paper
    V. Raina, S. Tan, V. Cevher, A. Rawal, S. Zha, G. Karypis: "Extreme Miscalibration and the Illusion of Adversarial
    Robustness". Protocol: section 4 (calibrated and adversarial temperature), eq. 8 and 9, appendix G.1; Platt scaling
    E.6, transfer E.3, token importance E.7, class margins F.1. Attacks are TextAttack's own recipes. Where the paper
    does not say what was run, what its numbers show is followed, and its own code is an option beside what works: its
    LBFGS (``calibrated_paper``) never leaves its starting point on under-confident models, and SciPy refuses its
    bracket (``paper_bracket``) for most models.

Threat model
    The attacker sees the scores of any text, knows nothing else of the model, and may rescale what it sees; fitted arms
    also have labelled validation examples, none of which is attacked. Arm ``as_served`` is the attack out of the box:
    float32 softmax of the served logits, saturation included. All other arms compute in float64. Arm ``label_only``,
    which is always run, is told labels and no scores. Whatever found them, adversarial texts are judged by the
    unmodified model's own prediction, on all examples: those wrong before the attack count as errors.

The guarantee
    Every text that counts against the model was written and misclassified by it: adversarial accuracy in an arm is an
    upper bound on what is left under an attacker that good. The illusion gap's interval knows that its arm was chosen
    on the same examples, and both its ends are wrong at most 2.5 % of the time.

Limits
    Greedy searches are weak attackers: that two arms agree does not make a model robust, only honest. ``optimized`` is
    sought with DeepWordBug on few validation examples, and may be another recipe's second best. An endpoint that rounds
    its probabilities to 0 or 1 has lost what the arms would restore; that is flagged, as are scores that lead no attack
    and answers that remember questions, from paths of edits asked before anything else and after it. An endpoint that
    knows the audited texts by heart is as robust as it seems, on these. ``label_only`` is a random search of few
    queries: weaker than a recipe on honest scores, and blind where no answer ever moves. Input reduction shortens texts
    without changing the class: it is reported, and kept out of the worst case and of the gaps.
"""
