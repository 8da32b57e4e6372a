"""Each journey through the console is made in each language, or says here why one is enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
LANGUAGES = {"en", "zh"}
BOTH = "it changes the language half-way, and looks at its pages in each"
NO_WORDS = "no word of the console takes part in it"
FIGURES = "it is about size and time, and reads figures as English writes them"
RIGHTS = "what rights allow does not depend on the language"
ONE_IS_ENOUGH = {
    "test_console.py": {
        "test_texts_change_with_the_language_and_stay_so": BOTH,
        "test_hostile_names_are_text_and_break_no_layout": NO_WORDS,
        "test_the_list_of_many_runs_has_few_rows_in_the_page": NO_WORDS,
        "test_axe_finds_nothing_serious_and_nothing_leaves_the_host": BOTH,
    },
    "test_console_agents.py": {
        "test_it_is_usable_by_all_on_each_screen_in_both_languages": BOTH,
    },
    "test_console_approvals.py": {
        "test_who_may_not_decide_is_told_why_and_works_by_keyboard_in_both_languages": BOTH,
    },
    "test_console_audit.py": {
        "test_what_entries_are_about_is_a_link_for_who_may_open_it": NO_WORDS,
        "test_it_looks_well_in_every_way": BOTH,
    },
    "test_console_back.py": {
        "test_back_shows_the_runs_that_one_came_from": NO_WORDS,
        "test_back_shows_the_entries_of_the_audit_log": NO_WORDS,
        "test_what_a_run_names_is_a_link": NO_WORDS,
        "test_what_a_step_names_is_a_link": NO_WORDS,
    },
    "test_console_chat_history.py": {
        "test_two_thousand_messages_are_read_upwards": NO_WORDS,
        "test_a_link_leads_to_a_message_and_what_has_the_focus_stays": NO_WORDS,
    },
    "test_console_chat_long.py": {
        "test_an_answer_of_five_thousand_pieces_is_written_and_read_again": NO_WORDS,
    },
    "test_console_chat_looks.py": {
        "test_in_both_languages_on_phones_and_by_keyboard": BOTH,
        "test_hostile_content_does_nothing": NO_WORDS,
    },
    "test_console_first_paint.py": {"test_little_comes_before_a_page_is_seen": BOTH},
    "test_console_hostile.py": {
        "test_no_text_of_others_does_anything_on_any_page": NO_WORDS,
        "test_other_pages_can_neither_frame_the_console_nor_write_with_its_cookie": NO_WORDS,
    },
    "test_console_keyboard.py": {
        "test_each_page_and_each_dialog_is_walked_with_the_tab_key": "keys and order are the same in each",
    },
    "test_console_lib.py": {
        "test_requests_whose_answers_are_lost_and_streams_that_break": NO_WORDS,
        "test_lists_that_grow_faster_than_they_are_read": NO_WORDS,
        "test_messages_are_there_once_and_files_stay_removed": NO_WORDS,
        "test_of_the_calls_of_a_pause_those_are_in_doubt_that_are_named": NO_WORDS,
        "test_a_long_text_looked_at_in_pieces_is_what_it_is_as_a_whole": NO_WORDS,
    },
    "test_console_many_runs.py": {
        "test_a_hundred_thousand_runs_scroll": FIGURES,
        "test_runs_of_any_length_are_few_nodes": FIGURES,
    },
    "test_console_pictures.py": {
        "test_each_page_has_its_pictures_in_the_documentation": "the documentation is in English",
    },
    "test_console_rights.py": {
        "test_each_page_asks_and_offers_what_the_key_allows": NO_WORDS,
        "test_nothing_of_a_workspace_is_shown_to_people_of_another": NO_WORDS,
    },
    "test_console_roles.py": {
        "test_each_control_is_there_for_those_who_may_use_it_and_works": RIGHTS,
    },
    "test_console_run.py": {"test_hostile_text_does_nothing": BOTH},
    "test_console_settings.py": {"test_it_looks_well_in_every_way": BOTH},
    "test_console_sources.py": {
        "test_all_of_it_is_readable_at_every_width_theme_and_language": BOTH,
    },
    "test_console_unreadable.py": {"test_they_are_requested_only_for_those_who_may_configure": NO_WORDS},
    "test_console_usage.py": {"test_it_looks_well_in_every_way": BOTH},
    "test_console_wheel.py": {
        "test_it_works_in_a_browser_from_the_wheel": "of what is packed, which is all languages",
    },
}
"""By file and test: why it is made in one language, or in both within itself."""


def journeys() -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    for path in sorted(FOLDER.glob("test_console*.py")):
        for one in ast.parse(path.read_text("utf-8")).body:
            if isinstance(one, ast.AsyncFunctionDef) and one.name.startswith("test_"):
                yield path.name, one


def languages_of(journey: ast.AsyncFunctionDef) -> set[str]:
    """The languages of its decorators: `in_languages`, or parameters with `language` among them."""
    found = set[str]()
    for decorator in journey.decorator_list:
        texts = {str(one.value) for one in ast.walk(decorator) if isinstance(one, ast.Constant)}
        if "in_languages" in ast.unparse(decorator) or "language" in texts:
            found |= texts & LANGUAGES
    return found


def test_each_journey_is_made_in_each_language() -> None:
    missing = [
        f"{file}: {one.name}"
        for file, one in journeys()
        if languages_of(one) != LANGUAGES and one.name not in ONE_IS_ENOUGH.get(file, {})
    ]
    assert missing == [], "decorate them with in_languages, or say why one language is enough"


def test_what_needs_one_language_is_there_and_is_made_in_one() -> None:
    alone = {(file, one.name) for file, one in journeys() if languages_of(one) != LANGUAGES}
    listed = {(file, name) for file, names in ONE_IS_ENOUGH.items() for name in names}
    assert listed == alone
