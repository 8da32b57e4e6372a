"""An assembler for seccomp filter programs, and their rules.

Pure: rules in, bytes out. A rule is about one system call: the first case whose checks all hold gives the
action, or else `otherwise`. A call without a rule is allowed if it is listed as such; any other one fails as
if the kernel did not have it. A call of another architecture kills the process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from hostler.domain.record import Record

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
ALLOW, KILL, NOTIFY, ERRNO = 0x7FFF0000, 0x80000000, 0x7FC00000, 0x00050000
X32_BIT = 0x40000000
"""Set in the numbers of x32 calls, a second set of calls on x86_64: all are refused."""
ENOSYS = 38
EPERM = 1
AUDIT_NUMBERS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's constants for processor architectures (AUDIT_ARCH_*)."""
MAX_INSTRUCTIONS = 4096
"""The kernel's maximum."""


class Check(Record):
    """A test of one argument: equal to `value` under `mask`. `high` tests the upper half of a 64-bit
    argument.

    With `least` the argument must be at least `value`.
    """

    argument: int
    value: int
    mask: int = 0xFFFFFFFF
    high: bool = False
    least: bool = False


class Case(Record):
    """An action for calls that pass all checks."""

    checks: tuple[Check, ...]
    action: int


class Rule(Record):
    """The actions for one system call, given by its number on this machine."""

    number: int
    otherwise: int
    cases: tuple[Case, ...] = ()


def refuse(errno: int = EPERM) -> int:
    """Return the action that makes a call fail with `errno`."""
    return ERRNO | errno


def assemble(machine: str, rules: Iterable[Rule], allowed: Iterable[int]) -> bytes:
    """Return the filter program in the kernel's format. `allowed` are numbers of calls without a rule.

    Raises KeyError for an unsupported processor.
    """
    program = [
        _statement(LOAD, ARCHITECTURE_OFFSET),
        _jump(JUMP_EQUAL, AUDIT_NUMBERS[machine], 1, 0),
        _statement(RETURN, KILL),
        _statement(LOAD, NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        program += [_jump(JUMP_AT_LEAST, X32_BIT, 0, 1), _statement(RETURN, refuse(ENOSYS))]
    for rule in rules:
        block = _block(rule)
        program += [_jump(JUMP_EQUAL, rule.number, 0, len(block)), *block]
    for first, last in _ranges(allowed):
        program += [
            *(_jump(JUMP_AT_LEAST, first, 1, 0), _statement(RETURN, refuse(ENOSYS))),
            *(_jump(JUMP_AT_LEAST, last + 1, 1, 0), _statement(RETURN, ALLOW)),
        ]
    program.append(_statement(RETURN, refuse(ENOSYS)))
    if len(program) > MAX_INSTRUCTIONS:
        raise ValueError(f"{len(program)} instructions; the kernel takes {MAX_INSTRUCTIONS}")
    return b"".join(program)


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each unbroken row, in order: one test for many calls."""
    found: list[tuple[int, int]] = []
    for one in sorted(numbers):
        if found and found[-1][1] == one - 1:
            found[-1] = (found[-1][0], one)
        else:
            found.append((one, one))
    return found


def _block(rule: Rule) -> list[bytes]:
    block: list[bytes] = []
    for case in rule.cases:
        block += _case(case)
    return [*block, _statement(RETURN, rule.otherwise)]


def _case(case: Case) -> list[bytes]:
    parts: Sequence[Check] = case.checks
    size = 3 * len(parts) + 1  # each check is three instructions; then the action
    code: list[bytes] = []
    for index, check in enumerate(parts):
        offset = ARGUMENTS_OFFSET + 8 * check.argument + (4 if check.high else 0)
        after = size - 3 * (index + 1)
        code += [
            _statement(LOAD, offset),
            _statement(AND, check.mask),
            _jump(JUMP_AT_LEAST if check.least else JUMP_EQUAL, check.value, 0, after),
        ]
    return [*code, _statement(RETURN, case.action)]


def _statement(code: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
