"""The vocabulary the API and the workers share: standard library and pydantic only."""
