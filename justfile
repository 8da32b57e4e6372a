# Run with `uv run just <recipe>`.

# what CI runs
check: lint types layers test docs

lint:
    uv run ruff check .
    uv run ruff format --check .

types:
    uv run mypy

layers:
    uv run lint-imports

test *args:
    uv run pytest {{args}}

# schema and generated pages match the code
docs:
    uv run python scripts/generate_docs.py --check

# write schema and generated pages anew
generate:
    uv run python scripts/generate_docs.py

# draw who imports whom: docs/rooms.md and docs/rooms.svg
map: generate

# the fault tests, properties and simulated lives in their long form: many more kills, steers, examples and seeds
soak *args: && timed
    HOSTLER_SOAK=1 uv run pytest tests/faults tests/properties tests/journeys/test_http_fuzzed.py \
        tests/host/http/test_http_fuzz.py tests/conformance/test_store_runs_model.py \
        tests/simulation/test_seeds.py \
        tests/journeys/test_local_agent_complete.py -m "soak or not soak" {{args}}

# what the console promises of its speed, with nothing else at work beside it: no long task, the first row in time
timed *args:
    HOSTLER_SOAK=1 uv run pytest -n 0 tests/journeys/test_console_chat_long.py \
        tests/journeys/test_console_chat_history.py tests/journeys/test_console_many_runs.py \
        tests/journeys/test_console_first_paint.py {{args}}

# live lives of whole hosts in a simulated world, until told to stop or for `--minutes N`: docs/simulation.md
simulate *args:
    PYTHONPATH=tests uv run python -m simulation run {{args}}

# put defects into the product one by one, and look for each with at most 200 lives: docs/simulation.md
mutants *args:
    PYTHONPATH=tests uv run python -m simulation.mutants {{args}}

# tell one life, cut it down, or count what lives show: `just life show SEED`, `shrink SEED`, `coverage`
life *args:
    PYTHONPATH=tests uv run python -m simulation {{args}}

# measure, and write docs/performance.md
bench *args:
    uv run python -m bench {{args}}
