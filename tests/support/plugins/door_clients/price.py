"""The tool of the clients."""

from hostler_sdk import tool


@tool(effect="pure")
async def price(thing: str) -> str:
    """The price of a thing."""
    return f"{thing}: 12 euros"
