"""Pure decisions: no IO, no clock, no database."""
