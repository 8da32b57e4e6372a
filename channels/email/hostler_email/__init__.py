"""The channel of mailboxes."""
