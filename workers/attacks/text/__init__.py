"""Text attacks: TextAttack's recipes, run many examples at a time against one cached scoring service."""
