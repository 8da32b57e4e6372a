"""Working folders: where commands and files of a conversation, or of one run, lie."""
