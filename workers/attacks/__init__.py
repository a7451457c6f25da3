"""What the audit families share: a projected-gradient engine, its losses and its feasible regions.

Four things are kept apart, and a family picks one of each:

* the region (:mod:`workers.attacks.regions`): where a perturbed image may be, and what a step in it is;
* the loss (:mod:`workers.attacks.losses`): what the gradient descends;
* the objective (:class:`workers.attacks.objectives.Objective`): which iterate is best, which are allowed, when one is
  done;
* the attack (:class:`workers.attacks.pgd.PGD`): steps and restarts; what it has found of whom is kept by
  :class:`workers.attacks.active_batch.ActiveBatch`.
"""
