"""Which files and lines `glob` and `grep` find."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.tools.files import search_worker
from agent_runtime.tools.files.pattern_readings import escaped_choice
from agent_runtime.tools.files.text_forms import forms_in_pattern
from agent_runtime.workspace import SIGN_FORMS


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "README.md": b"# Title\nhello world\n",
        "a/one.py": b"import os\nprint('Hello')\n",
        "a/one.txt": b"hello\r\nhell\n\nhello again",
        "a/b/two.py": "h\u00e9llo = 1\n".encode(),
        "a/b/latin.txt": b"caf\xe9 hello\n",
        "a.txt": b"last hello",
        "binary": b"hello\n" + b"x" * 100_000 + b"\0",
        "utf16.txt": "hello".encode("utf-16"),
        ".hidden": b"hello\n",
        "-dash.txt": b"hello\n",
        "with\nnewline.txt": b"hello\n",
        "long.txt": b"hello" + b"x" * 600 + b"\n",
        ".git/config": b"hello\n",
        "node_modules/x/index.js": b"hello\n",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "link.txt").symlink_to("README.md")
    (tmp_path / "linked").symlink_to("a")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def glob(root: Path, pattern: str, limit: int = 1000) -> dict[str, Any]:
    request = {"kind": "glob", "root": str(root), "pattern": pattern, "limit": limit, "sign_forms": SIGN_FORMS}
    return search_worker.handle_request(request)


def grep(root: Path, pattern: str, **more: Any) -> dict[str, Any]:
    request = {"kind": "grep", "root": str(root), "only": None, "include": "**", "limit": 200}
    return search_worker.handle_request({**request, "pattern": pattern, **more})


# ---------------------------------------------------------------- glob


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a/b/two.py", "a/one.py"]),
        ("a/*.py", ["a/one.py"]),
        ("./a/*.py", ["a/one.py"]),
        ("**/*.py", ["a/b/two.py", "a/one.py"]),
        ("a/**/*.py", ["a/b/two.py", "a/one.py"]),
        ("**/b/**", ["a/b/latin.txt", "a/b/two.py"]),
        ("a/b/", ["a/b/latin.txt", "a/b/two.py"]),
        ("a/one.{py,txt}", ["a/one.py", "a/one.txt"]),
        ("{a,x}/{one,b/two}.py", ["a/b/two.py", "a/one.py"]),
        ("[rR]EADME.*", ["README.md"]),
        ("a/one.???", ["a/one.txt"]),
        (".git/*", [".git/config"]),
        ("**/node_modules/**/*.js", ["node_modules/x/index.js"]),
        ("link*", ["link.txt"]),
        ("nothing", []),
        ("a", ["a/b/latin.txt", "a/b/two.py", "a/one.py", "a/one.txt"]),
        ("linked/*", []),
        ("with*", ["with\nnewline.txt"]),
    ],
)
def test_glob(tree: Path, pattern: str, found: list[str]) -> None:
    assert glob(tree, pattern)["entries"] == found


def test_glob_is_sorted_and_says_what_it_left_out(tree: Path) -> None:
    answer = glob(tree, "**")
    assert answer["entries"][:4] == ["-dash.txt", ".hidden", "README.md", "a/b/latin.txt"]
    assert not answer["truncated"]
    assert answer["left_out"] == [".git (skipped)", "linked (a link)", "node_modules (skipped)"]


@pytest.mark.parametrize(("limit", "truncated"), [(2, False), (1, True)])
def test_a_listing_that_is_not_complete_says_so(tree: Path, limit: int, truncated: bool) -> None:
    answer = glob(tree, "*.py", limit)
    assert (len(answer["entries"]), answer["truncated"]) == (limit, truncated)


def test_a_root_that_is_gone_is_told(tree: Path) -> None:
    assert glob(tree / "gone", "*")["left_out"] == [". (No such file or directory)"]


def test_braces_do_not_explode() -> None:
    assert search_worker.handle_request({"kind": "glob", "root": "/", "pattern": "{a,b}" * 30, "limit": 1}) == {
        "fault": "pattern: the braces stand for more than 64 patterns",
        "kind": "invalid",
    }


def naive(parts: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(naive(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and pattern[0] in ("*", parts[0]) and naive(parts[1:], pattern[1:])


WEB = (
    "src/app/[id]/page.tsx",
    "src/app/d/page.tsx",
    "src/app/i/page.tsx",
    "src/app/[...slug]/page.tsx",
    "src/app/s/page.tsx",
    "src/app/[[...all]]/page.tsx",
    "src/app/(group)/[id]/edit.tsx",
    "src/app/(group)/d/edit.tsx",
    "src/pages/[id].tsx",
    "src/pages/d.tsx",
    "lib/d/page.tsx",
    "data/a1.csv",
    "data/b1.csv",
    "odd/$id.txt",
    "odd/my file.txt",
    "odd/{a,b}.txt",
)
BRACKETS = [
    ("src/app/[id]/*", ["src/app/[id]/page.tsx"]),
    ("src/app/[id]/page.tsx", ["src/app/[id]/page.tsx"]),
    ("src/app/[...slug]/*.tsx", ["src/app/[...slug]/page.tsx"]),
    ("src/app/[[...all]]/*.tsx", ["src/app/[[...all]]/page.tsx"]),
    ("src/app/(group)/[id]/*", ["src/app/(group)/[id]/edit.tsx"]),
    ("**/[id]/*", ["src/app/(group)/[id]/edit.tsx", "src/app/[id]/page.tsx"]),
    ("**/[id]/*.css", []),
    ("src/pages/[id].tsx", ["src/pages/[id].tsx"]),
    ("src/pages/[id]*", ["src/pages/[id].tsx"]),
    ("[id].tsx", ["src/pages/[id].tsx"]),
    ("src/**/[id]/{page,edit}.tsx", ["src/app/(group)/[id]/edit.tsx", "src/app/[id]/page.tsx"]),
    ("data/[ab]1.csv", ["data/a1.csv", "data/b1.csv"]),
    ("data/[!a]1.csv", ["data/b1.csv"]),
    ("[a-e]*/[b]1.csv", ["data/b1.csv"]),
    ("lib/[cd]/*", ["lib/d/page.tsx"]),
    ("src/[a]*/[id]/*", ["src/app/[id]/page.tsx"]),
    ("src/app/[[]id]/*", ["src/app/[id]/page.tsx"]),
    (r"src/app/\[id\]/*", ["src/app/[id]/page.tsx"]),
    (r"src/app/\[[.]..slug]/*", ["src/app/[...slug]/page.tsx"]),
    (r"src/app/\*/*", []),
    ("data/[^a]1.csv", ["data/b1.csv"]),
    ("src/pages/[^d]*", ["src/pages/[id].tsx"]),
    (r"src/app/\(group\)/\[id\]/*", ["src/app/(group)/[id]/edit.tsx"]),
    (r"src/app/\(group\)/[id]/*", ["src/app/(group)/[id]/edit.tsx"]),
    (r"odd/\$id.txt", ["odd/$id.txt"]),
    (r"odd/my\ file.txt", ["odd/my file.txt"]),
    (r"odd/\{a,b\}.txt", ["odd/{a,b}.txt"]),
    ("odd/{$id,my file}.txt", ["odd/$id.txt", "odd/my file.txt"]),
    (r"{odd/\{a\,b\}.txt,odd/my*}", ["odd/my file.txt", "odd/{a,b}.txt"]),
    ("data/*.csv,odd/m*", ["data/a1.csv", "data/b1.csv", "odd/my file.txt"]),
    ("*a1.{csv,txt}, b[0-9].csv", ["data/a1.csv", "data/b1.csv"]),
    ("[id].css,[id].tsx", ["src/pages/[id].tsx"]),
    ("*,*.txt", ["odd/{a,b}.txt"]),
    ("odd/{[a],b}.txt", []),
    ("data/a*.csv odd/m*", ["data/a1.csv", "odd/my file.txt"]),
    ("data/*.csv|odd/m*", ["data/a1.csv", "data/b1.csv", "odd/my file.txt"]),
    ("data/*.{csv}", ["data/a1.csv", "data/b1.csv"]),
    ("{odd}/{my file}.*", ["odd/my file.txt"]),
    ("my d*", []),
    ("odd", ["odd/$id.txt", "odd/my file.txt", "odd/{a,b}.txt"]),
    ("./pages", ["src/pages/[id].tsx", "src/pages/d.tsx"]),
    ("src/app/[id]", ["src/app/[id]/page.tsx"]),
    ("{lib,data}", ["data/a1.csv", "data/b1.csv", "lib/d/page.tsx"]),
    ("lib, src/pages", ["lib/d/page.tsx", "src/pages/[id].tsx", "src/pages/d.tsx"]),
    ("da?a", []),
    ("li*", []),
]


@pytest.fixture
def web_tree(tmp_path: Path) -> Path:
    for name in WEB:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"of {name}\n")
    return tmp_path


@pytest.mark.parametrize(("pattern", "found"), BRACKETS)
def test_brackets_are_a_name_where_one_is_written_so(web_tree: Path, pattern: str, found: list[str]) -> None:
    assert glob(web_tree, pattern)["entries"] == found
    assert [match["path"] for match in grep(web_tree, "of", include=pattern)["matches"]] == found


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("u\u0308ber.md", "\u00fcber.md"),
        ("\u00fcber.md", "u\u0308*"),
        ("Shot 9.00\u202fAM.md", "Shot* AM.*"),
        ("it\u2019s [1].md", "it's [1].md"),
        ("{e\u0301}.md", "{\u00e9}.md"),
        ("e\u0301t\u00e9/a.md", "**/[\u00e0-\u00ff]t\u00e9/*.md"),
    ],
)
def test_names_are_found_in_other_forms_of_their_signs(tmp_path: Path, name: str, pattern: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("a\n")
    assert glob(tmp_path, pattern)["entries"] == [name]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("M\u00fcller", [1, 2]),
        ("Mu\u0308ller", [1, 2]),
        ("M\u00fc+ller", [1, 2, 3]),
        ("M[\u00fc]ller", [1]),
        ("(?i)M\u00dcLLER", [1, 2]),
        ("\u2019s", [4, 5]),
        ("...\u00fc", [2]),
        ("\\[\u00fc]", [6]),
    ],
)
def test_lines_are_found_in_other_forms_of_their_signs(tmp_path: Path, pattern: str, lines: list[int]) -> None:
    told = ["M\u00fcller", "xyzMu\u0308ller", "M\u00fc\u00fcller", "it\u2019s", "it's", "[u\u0308]"]
    (tmp_path / "a.txt").write_text("\n".join(told))
    assert [match["line"] for match in grep(tmp_path, forms_in_pattern(pattern))["matches"]] == lines


def test_a_pattern_of_marks_costs_little() -> None:
    assert forms_in_pattern("\u0301" * 100_000) == "\u0301" * 100_000


@given(
    st.lists(st.sampled_from("ab"), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "*", "**"]), max_size=5),
)
def test_matching_agrees_with_a_naive_one(parts: list[str], pattern: list[str]) -> None:
    glob = search_worker.Glob(pattern, {})
    at = glob.start
    for folder in parts[:-1]:
        at = glob.descend(at, folder)
    assert any(test(parts[-1]) for test in glob.name_tests(at)) == naive(parts, pattern)


def test_what_cannot_fit_is_not_walked_and_not_reported(tree: Path) -> None:
    (tree / "a" / "node_modules").mkdir()
    for pattern in ("a/*.py", "a/*"):
        assert glob(tree, pattern)["left_out"] == []
    assert glob(tree, "a/**/*.py")["left_out"] == ["a/node_modules (skipped)"]


def test_links_are_named_and_not_followed_into_folders(tree: Path) -> None:
    answer = glob(tree, "loop")  # leads nowhere, and is there
    skipped = [".git (skipped)", "linked (a link)", "node_modules (skipped)"]
    assert (answer["entries"], answer["left_out"]) == (["loop"], skipped)
    (tree / "a" / "b").rename(tree / "far")
    (tree / "a" / "b").symlink_to("../far")
    answer = glob(tree, "**/two.py")
    assert (answer["entries"], answer["left_out"][1]) == (["far/two.py"], "a/b (a link)")


def test_a_deep_tree_is_walked_to_its_bottom(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("f", os.O_CREAT, dir_fd=folder))
    os.close(folder)
    try:
        assert glob(tmp_path, "f")["entries"] == ["d/" * 1200 + "f"]
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # too deep for Python to remove


# ---------------------------------------------------------------- grep


def test_grep(tree: Path) -> None:
    found = grep(tree, "^hello")
    assert [(match["path"], match["line"], match["text"]) for match in found["matches"]] == [
        ("-dash.txt", 1, "hello"),
        (".hidden", 1, "hello"),
        ("README.md", 2, "hello world"),
        ("a/one.txt", 1, "hello"),
        ("a/one.txt", 4, "hello again"),
        ("long.txt", 1, "hello" + "x" * 495 + "..."),
        ("utf16.txt", 1, "hello"),
        ("with\nnewline.txt", 1, "hello"),
    ]
    assert not found["truncated"]


def test_grep_one_file(tree: Path) -> None:
    found = grep(tree, "hello", only="a.txt")
    assert found["matches"] == [{"path": "a.txt", "line": 1, "text": "last hello"}]


@pytest.mark.parametrize(("limit", "truncated"), [(3, False), (2, True)])
def test_matches_that_are_not_complete_say_so(tree: Path, limit: int, truncated: bool) -> None:
    found = grep(tree, "hell", include="a/*.txt", limit=limit)
    assert (len(found["matches"]), found["truncated"]) == (limit, truncated)


def test_more_files_than_one_call_takes(tmp_path: Path) -> None:
    for number in range(search_worker.FILES_PER_RUN + 20):
        (tmp_path / f"{number:04}").write_text("x")
    found = grep(tmp_path, "x", limit=1000)
    assert [match["path"] for match in found["matches"]] == [f"{n:04}" for n in range(search_worker.FILES_PER_RUN + 20)]


def test_what_is_no_regular_expression_is_told(tree: Path) -> None:
    (tree / "empty").mkdir()
    for root in (tree, tree / "empty"):
        for pattern in ("h(", "h)(e", "h\\", "[h"):
            assert grep(root, pattern)["fault"].startswith("pattern: is not a regular expression: "), pattern


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        (("a\n", r"a\nb", r"a\r\nb"), "pattern: a match is within one line; search for a part, or use bash with rg -U"),
        (
            ("(?=a)b", "(?<!a)b", r"(a)\1"),
            "pattern: look-around and references to groups are not known; leave them out, or use bash with grep -P",
        ),
    ],
)
def test_what_regular_expressions_lack_is_told(tree: Path, patterns: tuple[str, ...], told: str) -> None:
    for pattern in patterns:
        assert grep(tree, pattern) == {"fault": told, "kind": "invalid"}


@pytest.mark.parametrize(
    ("pattern", "reading"),
    [
        (r"json\|Tool", "json|Tool"),
        (r"\(json\|Tool\)", "(json|Tool)"),
        (r"import \(json\|re\)$", "import (json|re)$"),
        (r"run\(\)\|stop\(\)", r"run\(\)|stop\(\)"),
        (r"[\|]a\|b", r"[\|]a|b"),
        (r"[\|]", None),
        (r"json\\|Tool", None),
        (r"json\\\|Tool", r"json\\|Tool"),
        (r"a \|\| b", None),
        (r"\|a\|", None),
        (r"a\|*", None),
        (r"a\|\(\)", r"a|\(\)"),
        (r"^\|a", None),
        (r"f\(a\|b", r"f\(a|b"),
        ("json|Tool", None),
    ],
)
def test_how_other_programs_read_a_pattern(pattern: str, reading: str | None) -> None:
    assert escaped_choice(pattern) == reading


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("(?i)HELL|again", [1, 2, 4]),
        ("(?x) again # only this", [4]),
        ("hello(?x) # (", [1, 4]),
        ("hell$", [2]),
        ("^$", [3]),
        ("z*", [1, 2, 3, 4]),
        ("hello.again|o$", [1, 4]),
    ],
)
def test_a_pattern_means_what_ripgrep_says(tree: Path, pattern: str, lines: list[int]) -> None:
    assert [match["line"] for match in grep(tree / "a", pattern, only="one.txt")["matches"]] == lines


def test_what_is_not_looked_into_is_named(tree: Path) -> None:
    left_out = grep(tree, "hello", largest=50_000)["left_out"]
    assert "binary (over 0 MiB)" in left_out
    for expected in (".git (skipped)", "link.txt (a link)", "linked (a link)", "pipe (no regular file)"):
        assert expected in left_out


@pytest.mark.parametrize("count", [20, 21])
def test_a_list_of_what_is_left_out_that_is_not_complete_says_so(tmp_path: Path, count: int) -> None:
    for number in range(count):
        (tmp_path / f"{number:02}").symlink_to("gone")
    left_out = grep(tmp_path, "x")["left_out"]
    assert left_out[19:] == ["19 (a link)", *(["... and more"] if count > 20 else [])]


@pytest.mark.parametrize("encoding", ["latin-1", "gbk", "utf-8", "utf-8-sig", "utf-16"])
def test_files_in_which_only_ascii_is_found_are_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "it").write_bytes(("caf\u00e9 " if encoding == "latin-1" else "\u54c8 caf\u00e9 ").encode(encoding))
    (tmp_path / "ascii").write_text("cafe")
    reported = ["it (not UTF-8, so only ASCII is found)"] if encoding in ("latin-1", "gbk") else []
    found = grep(tmp_path, "caf\u00e9|caf")
    assert [match["path"] for match in found["matches"]] == ["ascii", "it"], "it is searched all the same"
    assert found["left_out"] == reported
    assert grep(tmp_path, "caf")["left_out"] == [], "nothing is missing"


def test_names_that_are_not_utf8_are_found(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("hello")
    assert [match["text"] for match in grep(tmp_path, "hello")["matches"]] == ["hello"]


def test_a_pattern_that_repeats_repetitions_takes_linear_time(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 10_000 + "!\n")
    assert grep(tmp_path, "(a+)+$") == {"matches": [], "truncated": False, "left_out": []}


def test_without_ripgrep_grep_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert grep(tmp_path, "x") == {
        "fault": "grep needs ripgrep (rg), which is not installed; search with bash",
        "kind": "unavailable",
    }


def test_the_program_reads_a_request_and_writes_an_answer(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = json.dumps({"kind": "glob", "root": str(tree), "pattern": "*.md", "limit": 5})
    argv = [sys.executable, "-I", "-S", search_worker.__file__]
    done = subprocess.run(argv, input=request, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == {"entries": ["README.md"], "truncated": False, "left_out": [
        ".git (skipped)", "linked (a link)", "node_modules (skipped)"
    ]}  # fmt: skip
    assert io.StringIO(done.stderr).read() == ""


@pytest.mark.parametrize("at", [0, 100, 400, 250_000, 299_990])
@pytest.mark.parametrize("around", ["x", "é", "日"])
def test_a_long_line_is_shown_where_it_matches(tmp_path: Path, at: int, around: str) -> None:
    (tmp_path / "long.txt").write_text(f"{around * at}heron{around * (300_000 - at)}\nshort heron\n")
    first, second = grep(tmp_path, "her.n")["matches"]
    assert "heron" in first["text"]
    assert len(first["text"]) <= search_worker.MAX_LINE_LENGTH + 6
    assert first["text"].startswith("...") is (at > search_worker.MAX_LINE_LENGTH // 4)
    assert second["text"] == "short heron"


def test_a_line_that_matches_at_each_of_its_characters_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "minified.js").write_text("x" * (4 << 20))
    request = {"kind": "grep", "root": str(tmp_path), "only": None, "include": "**", "limit": 200, "pattern": "x"}
    argv = ["prlimit", f"--data={96 << 20}", sys.executable, "-I", "-S", search_worker.__file__]
    done = subprocess.run(argv, input=json.dumps(request), capture_output=True, text=True, check=True, timeout=60)
    assert [match["line"] for match in json.loads(done.stdout)["matches"]] == [1]


def test_a_long_line_that_is_no_utf_8_is_shown_where_it_matches(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_bytes(b"\xe9" * 9000 + b"heron" + b"\xe9" * 9000)
    [match] = grep(tmp_path, "heron")["matches"]
    assert "heron" in match["text"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_text_of_other_systems_is_searched(tmp_path: Path, encoding: str) -> None:
    mark = "" if encoding in ("utf-8", "utf-16", "utf-8-sig") else "\ufeff"
    (tmp_path / "it.txt").write_bytes(f"{mark}first\r\nheron § é\r\n".encode(encoding))
    found = grep(tmp_path, "^heron")
    assert found["matches"] == [{"path": "it.txt", "line": 2, "text": "heron § é"}]
    assert found["left_out"] == []
    assert grep(tmp_path, "^first")["matches"][0]["line"] == 1
    assert [match["line"] for match in grep(tmp_path, "(first| é)$")["matches"]] == [1, 2]


UNSEARCHED = {
    "utf-16 without a mark": "heron".encode("utf-16-le"),
    "utf-32": "heron".encode("utf-32"),
    "an image": b"\x89PNG\r\n\x1a\n\0\0\0\rheron",
}


@pytest.mark.parametrize("content", UNSEARCHED.values(), ids=UNSEARCHED.keys())
@pytest.mark.parametrize("only", [None, "it"])
def test_a_file_that_is_passed_over_is_named(tmp_path: Path, content: bytes, only: str | None) -> None:
    (tmp_path / "it").write_bytes(content)
    (tmp_path / "other").write_text("heron\n")
    found = grep(tmp_path, "heron", only=only)
    assert found["left_out"] == ["it (binary)"]
    assert [match["path"] for match in found["matches"]] == ([] if only else ["other"])
