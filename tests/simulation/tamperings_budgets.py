"""Tamperings with budgets: what was used, reserved and added."""

from __future__ import annotations

from simulation.tampering import Tampering

RUN = "(SELECT min(run_id) FROM runs)"
TOP_UP = (
    "INSERT INTO budget_top_ups SELECT 'default', 'x', span, owner_id, day, '[0,5,0,0,0]', 'clerk', 'k',"
    " NULL, NULL, {}, 1 FROM budget_use LIMIT 1"
)

BUDGETS = [
    Tampering("budgets._bounded", "tokens", "UPDATE budget_use SET limits = '[null,1,null,null,null]'"),
    Tampering("budgets._bounded", "of 10000 tokens", "UPDATE budget_use SET reserved_tokens = 10000"),
    Tampering("budgets._paid", "were paid", "UPDATE budget_use SET tokens = 1"),
    Tampering("budgets._added", "was added", "UPDATE budget_use SET added_tokens = 5"),
    Tampering("budgets._added", "facts say so", TOP_UP.format("NULL")),
    Tampering("budgets._added", "and it was added 1 times", TOP_UP.format("'p'")),
    Tampering(
        "leftovers.judge",
        "a reservation of a call that is over is left",
        f"INSERT INTO budget_reservations VALUES ('default', 'x', {RUN}, 1, 'x', '[]', 1, 1, 1, 1)",
    ),
    Tampering(
        "leftovers.judge",
        "something reserved in a budget is left",
        "UPDATE budget_use SET reserved_cost = 1",
    ),
]
