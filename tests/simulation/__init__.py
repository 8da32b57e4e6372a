"""Lives of whole hosts in a simulated world: what they are made of, how they are judged and cut short."""
