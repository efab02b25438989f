"""The patterns that may cost more than their text is long, each with what bounds the text."""

from __future__ import annotations

_OWN_PROCESS = "reads a plugin's docstring, in the plugin's own worker, which has a deadline"
BOUNDED = {
    "agent_common/completions/calls/written.py _PARAMETERS": "is used by `match` at one position only",
    "agent_runtime/skills/worker/schema/docstring.py _GOOGLE_ENTRY": _OWN_PROCESS,
    "agent_runtime/skills/worker/schema/docstring.py _SPHINX_ENTRY": _OWN_PROCESS,
    "agent_runtime/skills/worker/schema/docstring.py _TITLE": _OWN_PROCESS,
    "agent_runtime/tools/shell/allow_reader.py [ \\t]*+(?!\\#)(?P<word>(?:[A-Za-z0-9_.,:/+@%=^~!{}*?\\[\\]\\#\\u0": (
        "is used by `match` at one position only"
    ),
    "agent_runtime/tools/watchdog/policy_file.py _TOKEN": "reads a rule of the operator's own policy",
    "frontends/text/line_break.py _WORD": "reads one message of a chat platform",
    "frontends/text/split.py _BLANK_LINES": "is used by `match` at one position only",
}
MADE_WHILE_RUNNING = {
    "agent_common/profiles/learning.py _WORDINGS": "texts of this file",
    "agent_common/profiles/learning.py f'(?<![\\\\w.])(?:body\\\\.)?{name}\\\\b'": "names of this file",
    "agent_common/profiles/table.py entry.host": "texts of this file",
    "agent_common/profiles/table.py entry.model": "texts of this file",
    "agent_common/protocol/authority/globs.py piece": "a glob that is compiled piece by piece, without a repeat in one",
    "agent_common/completions/errors/overflow.py wording.replace('#', '(\\\\d[\\\\d,]{0,14})')": "texts of this file",
    "agent_host/services/paths.py ''.join((forms.get(part) or re.escape(part) for part in part": (
        "the operator's own globs, on a bounded path"
    ),
    "agent_host/services/redaction.py b'[%b]' % listed if listed else b'(?!)'": "one byte",
    "agent_host/services/redaction.py beginning": "the operator's own secrets",
    "agent_host/services/redaction.py b'|'.join((form.beginning.pattern for form in self._forms))": (
        "the operator's own secrets"
    ),
    "agent_runtime/learnings/correction_phrases.py '|'.join(map(_phrase, sorted(phrases)))": "texts of this file",
    "agent_runtime/sessions/transfer/import_format.py shape": "an id, of a fixed length",
    "agent_runtime/tools/files/replacement.py form_of(clusters[skipped - 1])": "one literal character, in its forms",
    "agent_runtime/tools/files/replacement.py pattern_of(clusters)": "a few literal characters, without a repeat",
    "agent_runtime/tools/files/replacement.py self.pattern": "a few literal characters, without a repeat",
    "agent_runtime/tools/files/replacement.py begins": "a few literal characters, without a repeat",
    "agent_runtime/tools/files/replacement.py found": "literal characters without a repeat, at most MAX_WORK in all",
    "agent_runtime/tools/files/replacement.py starts": "literals with 80 blanks between, MAX_LOOSE in all",
    "agent_runtime/tools/files/search_worker.py '|'.join(map(fnmatch.translate, patterns))": (
        "the model's own glob, in a process with a deadline"
    ),
    "agent_runtime/tools/files/text_forms.py match": "one literal character, in its forms",
    "agent_runtime/tools/shell/allow_reader.py found": "the literal end of a here-document",
    "agent_runtime/tools/shell/deny_reader.py found": "the literal end of a here-document",
    "agent_runtime/tools/watchdog/policy_file.py pattern": "the operator's own policy",
    "agent_runtime/tools/watchdog/policy_file.py text": "the operator's own policy",
    "agent_runtime/tools/watchdog/watchdog.py f'{translate(one)}|{translate(literal)}'": "the operator's own policy",
    "frontends/discord/words.py text": "a literal mention of one person",
    "frontends/settings/bots_file.py compiled": "the operator's own settings",
}
