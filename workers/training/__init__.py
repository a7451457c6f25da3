"""Training methods that harden a model, as a library: no SQL, no HTTP, no Celery.

How a job uses it::

    spec = methods()["high_temperature"]                      # seatrial.contracts.training
    params = spec.params.model_validate(request)              # torch-free: the API validates and prices with it
    model = TrainableImages(classifier)                       # or TrainableTexts; workers.training.models
    method = spec.load()(params, model)                       # may raise PreflightError naming the field
    kept = CheckpointFolder(folder)                           # or Checkpoint.to_bytes() into a store of your own
    outcome = train(model, method, params, data, validation, seed=seed,
                    checkpoint=kept.load(), save=kept.save, save_every=50, folder=folder / "prepared",
                    on_progress=..., check_cancelled=...)     # workers.training.engine
    model.module.state_dict()                                 # the new weights, those that were kept

``outcome.curves`` has a point per epoch. ``check_cancelled`` raises to stop; it is called before every forward pass. A
method with ``spec.trains`` false leaves the weights alone: ``spec.load()(params, logits, labels)`` returns a map of
logits, fitted on held-out examples, as JSON.

A method is a class that implements :class:`workers.training.protocol.Method`: it turns a batch into a gradient. The
engine owns everything else: order, micro-batches and their halving where memory runs out, optimiser, schedule,
validation, checkpoints. Most extend :class:`workers.training.methods.plain.CrossEntropy` by a ``loss``. Another
distribution brings one by the entry point ``seatrial.training``, which leads to a
:class:`seatrial.contracts.training.MethodSpec`.

Checkpoints are safetensors and JSON, and a resumed run ends in the weights of an undisturbed one, to the bit, on the
same machine and device. What is drawn comes from generators that the checkpoint holds or from (seed, purpose, epoch).

What is trained on must not be what is audited: :func:`workers.training.overlap.refuse_overlap`.
"""
