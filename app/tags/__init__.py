"""Tags on models, datasets and audits, and the search over all of them."""
