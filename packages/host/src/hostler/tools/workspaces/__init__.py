"""Working folders for the commands and files of a conversation, or of one run."""
