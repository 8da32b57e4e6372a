"""The host tool that every agent of the suite may call."""

from hostler_sdk import tool


@tool(effect="pure")
def price(thing: str) -> str:
    """The price of a thing.

    thing: what it is
    """
    return f"{thing}: 12 euros"
