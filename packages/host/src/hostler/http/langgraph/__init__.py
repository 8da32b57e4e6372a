"""LangGraph server subset: agents are its assistants, conversations its threads."""
