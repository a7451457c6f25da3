"""What can an adversary provably do to a model's confidence? The certified-calibration audit.

The question
    A classifier's confidence decides what a machine may do alone. Attacks show how far somebody pushed it; they never
    show that nobody can push it further. A certificate does: within an l_2 radius of an image, no perturbation whatever
    takes the smoothed model's class elsewhere or its confidence out of an interval. From the intervals of a sample
    follows the largest calibration error any adversary can cause on it.

The paper
    C. Emde, F. Pinto, T. Lukasiewicz, P. H. S. Torr, A. Bibi: "Towards Certification of Uncertainty Calibration under
    Adversarial Attacks". Smoothing, PREDICT and CERTIFY: Cohen, Rosenfeld, Kolter 2019. Certificates of a confidence:
    Kumar, Levine, Feizi, Goldstein 2020. The paper states the certified calibration error as a mixed-integer programme
    and approximates it from below by ADMM; for equal-width bins it has an exact solution in O(N + M^2), which is what
    is reported here (:mod:`workers.certification.worst_calibration`).

Threat model
    Any perturbation of at most the radius in l_2 that ends at an 8-bit image, or another point of the grid of 1/16,320
    that image and noise are added on, by somebody who knows everything, the noise's distribution included (not its
    draws: these are made anew for every model file). Pixels may leave [0, 1].

The guarantee
    What is certified is the *smoothed* model: the class most often predicted under Gaussian noise of standard deviation
    sigma, and the mean score of that class. A class certificate is wrong with probability at most alpha, an interval of
    a confidence likewise; all those of a sample at once only with ``joint`` (a union bound). CCE and CBS are exact for
    the intervals, so an attack inside the radius stays below them; if the intervals are loose, so are they.

Who makes the model is not trusted
    It may be made to be certified. What it sees is a function of an integer, so the arithmetic tells it nothing
    (:mod:`workers.certification.grid`); it cannot have been made with the draws it is certified with; and copies asked
    for apart show whether it looks at others of its batch. What is left: a model that keeps a state and counts calls,
    which no architecture that is accepted can; a generator whose bits the model tells from random ones; and trying
    seeds until one is lucky, against which the seed must be chosen by somebody else, or before the model.

Limits
    The model as served without noise is not certified: serve it smoothed, or the numbers are about another model. CCE
    and CBS at a radius are over the examples whose class is certified there; ``cce_system`` is over all. Examples that
    share their draws of noise (the default) have correlated errors. A certificate is a bound: a large one does not
    show that harm can be done; the attacks beside it may.

Beside the question
    ``robust_accuracy`` attacks the predictions of the network alone, without noise, by AutoAttack
    (:mod:`workers.families.robust_accuracy`). No certificate is about these, and its flags are about no certificate.
"""
