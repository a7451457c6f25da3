"""The measuring side of Seatrial: claims shards, attacks models, stores records. Nothing here imports FastAPI."""
