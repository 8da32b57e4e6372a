"""An assembler for the programs by which the kernel judges calls of the system (seccomp), and their rules.

Pure: rules in, bytes out. A rule is about one call: the first case whose checks all hold says what is done,
else `otherwise` does. A call that no rule names is allowed. Calls of another processor mode end the process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
ALLOW, KILL, TELL, ERRNO = 0x7FFF0000, 0x80000000, 0x7FC00000, 0x00050000
X32_BIT = 0x40000000
"""Set in the numbers of a second, smaller set of calls of x86_64: all are refused."""
ENOSYS = 38
EPERM = 1
AUDIT_NUMBERS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How the kernel names a processor."""
MAX_INSTRUCTIONS = 4096
"""More are not taken by the kernel."""


@dataclass(frozen=True, slots=True)
class Check:
    """Of one argument: whether it is `value` under `mask`; `high` looks at the upper half of a 64-bit one.

    `least`: whether it is so much or more.
    """

    argument: int
    value: int
    mask: int = 0xFFFFFFFF
    high: bool = False
    least: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """What is done where all checks hold."""

    checks: tuple[Check, ...]
    action: int


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done about one call, by its number here."""

    number: int
    otherwise: int
    cases: tuple[Case, ...] = ()


def refuse(errno: int = EPERM) -> int:
    """The action that makes a call fail."""
    return ERRNO | errno


def assemble(machine: str, rules: Iterable[Rule]) -> bytes:
    """The program for a processor, as the kernel takes it. KeyError for a processor nobody wrote this for."""
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
    program.append(_statement(RETURN, ALLOW))
    if len(program) > MAX_INSTRUCTIONS:
        raise ValueError(f"{len(program)} instructions; the kernel takes {MAX_INSTRUCTIONS}")
    return b"".join(program)


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
