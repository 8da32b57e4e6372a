"""What happens in lives, by subject. Each module plans actions, and carries them out."""
