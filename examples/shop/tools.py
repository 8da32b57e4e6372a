"""Six tools: one for each effect, one that needs approval, and one that the client runs."""

from typing import Annotated, Any, Literal

import msgspec
from books import Books

from hostler_sdk import InvalidArgument, ToolContext, tool

PRICES = {"single": 80, "double": 120, "suite": 300}
Kind = Literal["single", "double", "suite"]
books = Books()


@tool(effect="pure")
async def prices(kind: Kind | None = None) -> dict[str, int]:
    """Tells what a night costs, in euros.

    kind: only this kind of room
    """
    return PRICES if kind is None else {kind: PRICES[kind]}


@tool(effect="idempotent")
async def book(
    kind: Kind, nights: Annotated[int, msgspec.Meta(ge=1, le=30)] = 1, *, ctx: ToolContext
) -> dict[str, Any]:
    """Books a room. The same effect key books it once, however often it is called.

    kind: the kind of room
    nights: how many
    """
    return books.once(
        ctx.effect_key,
        "booking",
        lambda number: {
            "booking": f"B{number}",
            "kind": kind,
            "nights": nights,
            "total": PRICES[kind] * nights,
        },
    )


@tool(effect="reconcilable")
async def pay(
    booking: str, amount: Annotated[int, msgspec.Meta(ge=1)], *, ctx: ToolContext
) -> dict[str, Any]:
    """Charges the card on file. What came of a charge can be looked up by its effect key.

    booking: like B1
    amount: euros
    """
    return books.once(
        ctx.effect_key,
        "payment",
        lambda number: {"receipt": f"R{number}", "booking": booking, "amount": amount},
    )


@pay.lookup
async def paid(effect_key: str) -> dict[str, Any] | None:
    """Return the outcome of a charge."""
    return books.outcome(effect_key)


@tool
def send(to: str, text: str) -> str:
    """Sends a postcard. Nobody can call it back, or tell whether it was sent.

    to: the address
    text: what it says
    """
    if not to.strip():
        raise InvalidArgument("send: to must name somebody")
    return f"A card to {to} is on its way: {text}"


@tool(approval="required")
async def refund(receipt: str, *, ctx: ToolContext) -> dict[str, Any]:
    """Gives money back. Asks for a person's approval, whatever the agent's policy says.

    receipt: like R1
    """
    return books.once(ctx.effect_key, "refund", lambda number: {"refund": f"F{number}", "receipt": receipt})


@tool(client=True)
def choose_seat(rows: int = 20) -> str:  # type: ignore[empty-body]  # runs in the guest's own application
    """Lets the guest pick a seat on a map, in the application that they are using.

    rows: how many rows the map shows
    """
