"""Doubts about a parsed shell script: wherever the parser might see data and bash a command, what runs is not known.

The parser reads a grammar that is nearly bash's. So every byte between the tokens is looked at again, and every kind of
node must be one that is known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .shell_runners import IDENTIFIER, decisive
from .shell_words import names, source

if TYPE_CHECKING:
    from tree_sitter import Node

_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f\x85\ud800-\udfff]")
_KNOWN = names(
    "program redirected_statement for_statement c_style_for_statement while_statement do_group if_statement "
    "elif_clause else_clause case_statement case_item function_definition compound_statement subshell pipeline "
    "list negated_command test_command declaration_command unset_command command command_name variable_assignment "
    "variable_assignments subscript file_redirect heredoc_redirect heredoc_body heredoc_start heredoc_content "
    "heredoc_end herestring_redirect binary_expression unary_expression postfix_expression ternary_expression "
    "parenthesized_expression arithmetic_expansion concatenation string string_content raw_string ansi_c_string "
    "array number simple_expansion expansion command_substitution process_substitution word variable_name "
    "special_variable_name file_descriptor test_operator regex extglob_pattern comment"
)
_WORDS = names(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion command_substitution "
    "arithmetic_expansion process_substitution variable_name special_variable_name command_name "
    "variable_assignment test_operator regex extglob_pattern subscript array translated_string brace_expression $ "
    "== =~ = -o -a"
)
_SPACED = names(
    "command declaration_command unset_command file_redirect heredoc_redirect herestring_redirect "
    "redirected_statement array for_statement case_statement test_command variable_assignments binary_expression "
    "compound_statement negated_command"
)
"""Nodes whose words stand apart: where two touch, bash reads one."""
_ONE_LINE = names(
    "command declaration_command unset_command file_redirect herestring_redirect redirected_statement "
    "negated_command variable_assignment variable_assignments command_name concatenation "
    "binary_expression unary_expression"
)
_EXPANDING = names("simple_expansion expansion command_substitution arithmetic_expansion")
_UNBROKEN = names("variable_assignment concatenation command_name simple_expansion")
_QUOTING = frozenset({"string", "heredoc_body"})
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_ACTIVE = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({\[A-Za-z0-9_@*#?$!'\"-])")
"""What expands within double quotes, and a quote behind a dollar."""
_META = re.compile(r"""[\s`"'<>|&;()]|\$(?=[({\[A-Za-z0-9_@*#?$!'"-])""")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|[0-9]+(?:#[0-9a-zA-Z]+)?)")
_COUNTS = re.compile(r'"?(?:\$[#?$!]|\$\{#[A-Za-z_@*]\w*(?:\[[@*]\])?\})"?')
_ARITHMETIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def strange(text: str) -> bool:
    """Characters that a shell and its parser may take for different things: controls and spaces beyond ASCII."""
    return _CONTROL.search(text) is not None or any(
        char.isspace() or char == "\ufeff" for char in set(text) - set(" \t\n")
    )


@dataclass(frozen=True, slots=True)
class Where:
    """What a node stands in."""

    arithmetic: bool = False
    expansion: bool = False
    backtick: bool = False


def inside(node: Node, child: Node, where: Where) -> Where:
    """What the child of a node stands in."""
    match node.type:
        case "command_substitution":
            return Where(backtick=where.backtick or source(node).startswith("`"))
        case "process_substitution":
            return Where(backtick=where.backtick)
        case "arithmetic_expansion":
            return Where(True, where.expansion, where.backtick)
        case "compound_statement" if node.children[0].type == "((":
            return Where(True, where.expansion, where.backtick)
        case "c_style_for_statement":
            return Where(child.type not in {"do_group", "compound_statement"}, where.expansion, where.backtick)
        case "expansion":
            return Where(where.arithmetic, True, where.backtick)
        case _:
            return where


def doubtful(node: Node, where: Where) -> bool:
    """Whether bash might read this node in another way than the parser."""
    if node.is_error or node.is_missing or (node.is_named and node.type not in _KNOWN):
        return True
    if not node.is_named and node.child_count == 0 and source(node) != node.type:
        return True  # the parser has taken more into an operator than is there
    if where.arithmetic and _evaluates(node):
        return True
    check = _CHECKS.get(node.type)
    if check is not None and check(node, where):
        return True
    return node.child_count > 0 and node.type not in _QUOTING and _gaps(node)


# ---------------------------------------------------------------- between the tokens


def _gaps(node: Node) -> bool:
    text, children = node.text or b"", node.children
    at, before = node.start_byte, None
    for child in children:
        gap = text[at - node.start_byte : child.start_byte - node.start_byte].decode(errors="replace")
        if _gap(node, before, child, gap):
            return True
        at, before = child.end_byte, child
    rest = text[at - node.start_byte :].decode(errors="replace")
    return rest.strip(" \t\n") != ""


def _gap(node: Node, before: Node | None, child: Node, gap: str) -> bool:
    if gap == "":
        return before is not None and node.type in _SPACED and _one_word(node, before, child)
    plain = gap.replace("\\\n", "")
    if node.type in _UNBROKEN or plain.strip(" \t\n") or not plain:
        return True
    if "\n" not in plain:
        return False
    operator = child.type in {"|", "|&", "&&", "||"}
    return node.type in _ONE_LINE or operator or (node.type == "test_command" and node.children[0].type == "[")


def _one_word(node: Node, before: Node, child: Node) -> bool:
    if child.type in _REDIRECTS:
        first = child.children[0].type if child.children else ""
        return first == "file_descriptor" or source(before)[-1:] in "0123456789}"
    if node.type == "compound_statement":
        return before.type == "{"
    if node.type == "negated_command":
        return before.type == "!"
    if before.type in {">&-", "<&-", "heredoc_start"}:
        return child.type != "heredoc_body" and not child.type.endswith("_end")
    if before.type in {"[", "[["} or child.type in {"]", "]]"}:
        return node.type == "test_command"
    return before.type in _WORDS and child.type in _WORDS


# ---------------------------------------------------------------- single nodes


def _evaluates(node: Node) -> bool:
    """Arithmetic on anything but numbers: the value of a variable is evaluated too, and can hold commands."""
    if node.type == "number":
        return _NUMBER.fullmatch(source(node)) is None
    if node.type in {"simple_expansion", "expansion"}:
        return _COUNTS.fullmatch(source(node)) is None
    if node.type in {"variable_name", "special_variable_name"}:
        parent = node.parent
        return parent is None or parent.type not in {"simple_expansion", "expansion"}
    return node.type in _WORDS and node.type != "arithmetic_expansion"


def _word(node: Node, where: Where) -> bool:
    text = source(node)
    unescaped = re.sub(r"\\.", "", text, flags=re.DOTALL)
    if where.expansion:
        return _active(text)
    return unescaped.startswith("#") or _META.search(unescaped) is not None


def _pattern(node: Node, _: Where) -> bool:
    return _active(source(node)) or "'" in source(node) or '"' in source(node)


def _raw(node: Node, where: Where) -> bool:
    """Within "${x:-'...'}" and in arithmetic the quotes do not quote."""
    return (where.expansion or where.arithmetic) and any(char in source(node) for char in "$`")


def _string(node: Node, _: Where) -> bool:
    return _holds(node, 1, 1)


def _holds(node: Node, head: int, tail: int) -> bool:
    """Whether text between the expansions would expand as well."""
    text, start = node.text or b"", node.start_byte
    at, end = head, len(text) - tail
    pieces: list[bytes] = []
    for child in node.children:
        if child.type not in _EXPANDING:
            continue
        pieces.append(text[at : child.start_byte - start])
        at = child.end_byte - start
    pieces.append(text[at:end])
    return any(_active(piece.decode(errors="replace")) for piece in pieces)


def _active(text: str) -> bool:
    """A line that goes on behind a backslash may join a dollar with its parenthesis."""
    return _ACTIVE.search(text) is not None or _ACTIVE.search(text.replace("\\\n", "")) is not None


def _comment(node: Node, where: Where) -> bool:
    root = node
    while root.parent is not None:
        root = root.parent
    before = (root.text or b"")[: node.start_byte - root.start_byte][-1:]
    return (
        where.backtick
        or where.expansion
        or where.arithmetic
        or before not in {b"", b" ", b"\t", b"\n", b";", b"(", b")", b"&", b"|"}
    )


def _backticks(node: Node, where: Where) -> bool:
    text = source(node)
    return text.startswith(("`", "$`")) and ("\\" in text or text.count("`") != 2 or where.backtick)


def _heredoc(node: Node, where: Where) -> bool:
    parts = {child.type: child for child in node.children}
    start, body, end = (parts.get(f"heredoc_{name}") for name in ("start", "body", "end"))
    if start is None or end is None or where.backtick or sum(c.type == "heredoc_redirect" for c in _beside(node)) > 1:
        return True
    tabs = "\t" if "<<-" in parts else ""
    delimiter = source(start)
    quoted = re.fullmatch(r"'[\w.-]+'|\"[\w.-]+\"|\\[\w.-]+", delimiter) is not None
    name = delimiter.strip("'\"\\")
    if (not quoted and re.fullmatch(r"[\w.-]+", delimiter) is None) or source(end).lstrip(tabs) != name:
        return True
    text = source(body) if body is not None else ""
    if body is None or not text:
        return False
    if any(line.lstrip(tabs) == name for line in text.split("\n")) or not text.rstrip(tabs).endswith("\n"):
        return True
    return not quoted and ("\\\n" in text or _holds(body, 0, 0))


def _beside(node: Node) -> Iterator[Node]:
    if node.parent is not None:
        yield from node.parent.children


def _expansion(node: Node, _: Where) -> bool:
    """Indirection, prompts and offsets evaluate values."""
    for child in node.children:
        if child.type in {"!", "@", ":", "P"} or (child.type in {"=", ":="} and decisive(_name(node))):
            return True
    return False


def _name(node: Node) -> str:
    return next((source(child) for child in node.children if child.type == "variable_name"), "")


def _assignment(node: Node, _: Where) -> bool:
    """What is no name makes it a command."""
    first = node.children[0] if node.children else node
    return first.type != "subscript" and IDENTIFIER.fullmatch(source(first)) is None


def _subscript(node: Node, _: Where) -> bool:
    if IDENTIFIER.fullmatch(source(node.children[0])) is None:
        return True
    index = [source(child) for child in node.children[1:] if child.type not in {"[", "]"}]
    return len(index) != 1 or (index[0] not in {"@", "*"} and _NUMBER.fullmatch(index[0]) is None)


def _variable(node: Node, where: Where) -> bool:
    """To the parser a letter beyond ASCII is a letter; to bash it ends the name."""
    return not source(node).isascii() or _word(node, where)


def _descriptor(node: Node, _: Where) -> bool:
    return re.fullmatch(r"[0-9]+", source(node)) is None


def _loop(node: Node, _: Where) -> bool:
    return decisive(_name(node))


def _test(node: Node, _: Where) -> bool:
    """In single brackets an operator ends the command or redirects; in double ones numbers are evaluated."""
    single = node.children[0].type == "["
    stack = list(node.children)
    while stack:
        child = stack.pop()
        if child.type == "test_operator" and source(child) in {"-v", "-R"}:
            return True
        if single and not child.is_named and any(char in "&|<>();~" for char in child.type):
            return True
        if child.type == "binary_expression":
            operator = next((one for one in child.children if one.type == "test_operator"), None)
            if operator is not None and source(operator) in _ARITHMETIC_TESTS and not single and not _counted(child):
                return True
        if child.type in {"binary_expression", "unary_expression", "parenthesized_expression"}:
            stack.extend(child.children)
    return False


def _counted(node: Node) -> bool:
    sides = [source(child) for child in node.children if child.type != "test_operator"]
    return all(_NUMBER.fullmatch(side) or _COUNTS.fullmatch(side) for side in sides)


_CHECKS = {
    "word": _word,
    "variable_name": _variable,
    "number": _word,
    "regex": _pattern,
    "extglob_pattern": _pattern,
    "raw_string": _raw,
    "ansi_c_string": _raw,
    "string": _string,
    "comment": _comment,
    "command_substitution": _backticks,
    "heredoc_redirect": _heredoc,
    "expansion": _expansion,
    "subscript": _subscript,
    "variable_assignment": _assignment,
    "for_statement": _loop,
    "file_descriptor": _descriptor,
    "test_command": _test,
}
