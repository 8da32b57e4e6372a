"""What must hold of every life, judged from the facts and from what the outside saw."""
