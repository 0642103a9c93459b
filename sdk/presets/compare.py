"""Compares how Kent and the libraries of other projects read the same identifiers: compare.py BUILD KENT.

BUILD is the directory with the programs that `check` built. KENT_ENDPOINT is the address of the daemon.
"""

import calendar
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).parent
BUILD, KENT = pathlib.Path(sys.argv[1]), sys.argv[2]
COUNT = 1000
# The machine number of the libraries, in binary 10101 00101.
MACHINE = 677
# The shard of Kent's identifiers, as in Instagram's example.
TAG = 1341
# The time of the identifiers of baidu-uid with its default epoch: 2023-11-14T22:13:20Z.
PAST_MS = 1_700_000_000_000

PROGRAMS = {
    "rust": [BUILD / "rust/release/kent-presets"],
    "go": [BUILD / "go/presets"],
    "node": ["node", BUILD / "node/main.mjs"],
    # Leaf has a file in the directory for temporary files, and Baidu's library depends on the time zone.
    "java": [
        "java",
        "-Duser.timezone=UTC",
        f"-Djava.io.tmpdir={BUILD}/java",
        "-cp",
        f"{BUILD}/java/classes:{BUILD}/java/lib/*",
        "Presets",
    ],
}


@dataclass
class Row:
    """A preset and a library. `expected` computes the fields of the library from those that Kent read."""

    preset: str
    program: str
    library: str
    expected: Callable[[dict], dict]
    # The options of `kent layout create` besides the preset.
    options: list[str] = field(default_factory=list)
    # The name of the layout, if it is not that of the preset.
    layout: str = ""
    tick_ms: int = 1
    # Where Kent reads the machine number of the library, and that number, if the program can choose it.
    machine: Callable[[dict], int] | None = None
    number: int | None = MACHINE
    # How the program reads Kent's identifiers, if the library cannot.
    note: str = ""
    # Whether the time of the preset has ended, so that only the library has identifiers.
    past: bool = False

    def __post_init__(self):
        self.layout = self.layout or self.preset
        self.title = " ".join([self.preset, *self.options])
        self.failures = {"library": {}, "kent": {}}
        self.texts = {"library": [], "kent": []}

    def fail(self, side: str, name: str, text: str, kent: object, other: object) -> None:
        """Keeps the first failure of each field."""
        self.failures[side].setdefault(
            name, f"{self.title}: {text}: {name}: Kent has {kent}, {self.library} has {other}"
        )


def slot(kent: dict) -> int:
    return kent["slot"]


def snowflake(kent: dict) -> dict:
    return {"machine": kent["slot"], "sequence": kent["counter"]}


def snowflake_of_two(kent: dict) -> dict:
    return {"worker": kent["slot"] >> 5, "process": kent["slot"] & 31, "increment": kent["counter"]}


def instagram(kent: dict) -> dict:
    return {"machine": kent["shard"], "sequence": kent["slot"] << 4 | kent["counter"]}


def mastodon(kent: dict) -> dict:
    return {"machine": 0, "sequence": kent["slot"] << 10 | kent["counter"]}


def ulid(kent: dict) -> dict:
    return {"random": kent["counter"] << 58 | kent["slot"] << 52 | kent["random"]}


def objectid(kent: dict) -> dict:
    return {"process": kent["slot"], "counter": kent["counter"]}


def ksuid(kent: dict) -> dict:
    payload = kent["counter"] << 70 | kent["slot"] << 64 | kent["random"]
    return {"payload_begin": payload >> 32, "payload_end": payload & 0xFFFF_FFFF}


def xid(kent: dict) -> dict:
    return {"machine": kent["slot"] >> 16, "pid": kent["slot"] & 0xFFFF, "counter": kent["counter"]}


def pushid(kent: dict) -> dict:
    return {"random": kent["counter"] << 50 | kent["slot"] << 44 | kent["random"]}


def typeid(kent: dict) -> dict:
    # The library has the number 1 for the variant whose bits are 10.
    variant = {2: 1}.get(kent["const"][1])
    return {
        "version": kent["const"][0],
        "variant": variant,
        "rand_a": kent["counter"],
        "rand_b": kent["slot"] << 56 | kent["random"],
    }


FIREBASE = "@firebase/database, firebase-key"
BAIDU = "com.xfvape.uid:uid-generator"
ROWS = [
    Row("snowflake-twitter", "rust", "ferroid", snowflake, machine=slot),
    Row("snowflake-twitter", "node", "@sapphire/snowflake", snowflake_of_two, machine=slot),
    Row("snowflake-discord", "rust", "ferroid", snowflake, machine=slot),
    Row("snowflake-discord", "node", "@sapphire/snowflake", snowflake_of_two, machine=slot),
    Row("snowflake-instagram", "rust", "ferroid", instagram, machine=lambda kent: kent["shard"]),
    Row(
        "snowflake-instagram",
        "rust",
        "ferroid",
        instagram,
        ["--epoch", "2011-01-01"],
        "snowflake-instagram-2011",
        machine=lambda kent: kent["shard"],
    ),
    Row("snowflake-mastodon", "rust", "ferroid", mastodon),
    Row("sonyflake", "go", "github.com/sony/sonyflake", snowflake, tick_ms=10, machine=slot),
    Row(
        "sonyflake",
        "go",
        "github.com/sony/sonyflake/v2",
        snowflake,
        ["--epoch", "2025-01-01"],
        "sonyflake-2025",
        tick_ms=10,
        machine=slot,
    ),
    Row("baidu-uid", "java", BAIDU, snowflake, layout="baidu-uid-2016", machine=slot, past=True),
    Row("baidu-uid", "java", BAIDU, snowflake, ["--epoch", "2026-01-01"], tick_ms=1000, machine=slot),
    Row("leaf-snowflake", "java", "com.tencent.devops.leaf:leaf-core", snowflake, machine=slot, note=" by formula"),
    Row("tsid", "java", "com.github.f4b6a3:tsid-creator", snowflake, machine=slot),
    Row("ulid", "node", "ulid", ulid),
    Row("objectid", "node", "bson", objectid, tick_ms=1000, machine=slot, number=None),
    Row("ksuid-128", "go", "github.com/segmentio/ksuid", ksuid, tick_ms=1000),
    Row("rs-xid", "go", "github.com/rs/xid", xid, tick_ms=1000, machine=slot, number=None),
    Row("pushid", "node", FIREBASE, pushid),
    Row("typeid", "go", "go.jetify.com/typeid", typeid, ["--prefix", "order_"]),
]


def version(program: str, library: str) -> str:
    """The version of a library in the file that pins it."""
    path, pattern = {
        "rust": ("rust/Cargo.lock", r'name = "{}"\nversion = "(.*)"'),
        "go": ("go/go.mod", r"\t{} v(\S+)"),
        "node": ("node/package-lock.json", r'"node_modules/{}": {{\s*"version": "(.*)"'),
        "java": ("java/pom.xml", r"<groupId>{}</artifactId>\s*<version>(.*)</version>"),
    }[program]
    name = re.escape(library).replace(":", r"</groupId>\s*<artifactId>")
    return re.search(pattern.format(name), (HERE / path).read_text())[1]


def kent(*arguments: str, text: str | None = None) -> str:
    return subprocess.run([KENT, *arguments], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout


def unix_ms(text: str) -> int:
    whole, fraction = re.fullmatch(r"([^.]*?)(?:\.(\d+))?Z", text).groups()
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1000 + int((fraction or "").ljust(3, "0"))


def inspect(form: str, texts: list[str]) -> dict[str, dict | str]:
    """What Kent reads in each identifier: the number, the canonical text, the time and the fields, or else an error."""
    command = [KENT, "inspect", "-", "--as", form, "--json"]
    done = subprocess.run(command, input="\n".join(texts), capture_output=True, text=True)
    read = {}
    for error in (json.loads(line)["error"] for line in done.stderr.splitlines()):
        read[error["details"].get("text")] = error["message"]
    for answer in map(json.loads, done.stdout.splitlines()):
        named = [(found["name"], found["value"]) for found in answer["fields"] if found["name"] != "time"]
        fields = {name: int(value) for name, value in named if name != "const"}
        fields["const"] = [int(value) for name, value in named if name == "const"]
        time_of = answer["time"] and unix_ms(answer["time"])
        read[answer["text"]] = fields | {"hex": answer["hex"], "text": answer["canonical"], "unix_ms": time_of}
    return read


def answers(ours: dict[str, list[str]]) -> list[dict]:
    """Runs the programs at the same time. Each prints Kent's identifiers and its own with their fields."""
    running = []
    for name, command in PROGRAMS.items():
        layouts = dict.fromkeys(row.layout for row in ROWS if row.program == name and not row.past)
        given, printed = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        given.writelines(f"{layout}\t{text}\n" for layout in layouts for text in ours[layout])
        given.seek(0)
        process = subprocess.Popen([*command, str(COUNT), str(MACHINE)], stdin=given, stdout=printed)
        running.append((name, process, printed))
    lines = []
    for name, process, printed in running:
        if process.wait() != 0:
            sys.exit(f"the program in sdk/presets/{name} failed")
        printed.seek(0)
        lines.extend(json.loads(line) for line in printed)
    return lines


def compare(
    row: Row, side: str, lines: list[dict], ours: list[str], daemon_slot: int, begin_ms: int, end_ms: int
) -> None:
    row.texts[side] = texts = [line["id"] for line in lines]
    wanted = COUNT if side == "library" else len(ours)
    if len(texts) != wanted or (side == "kent" and texts != ours):
        row.fail(side, "identifiers", "all", wanted, len(texts))
    read = inspect("baidu-uid" if row.past else f"layout:{row.layout}", texts)
    numbers = set()
    for line in lines:
        text, found = line["id"], read[line["id"]]
        if isinstance(found, str) or "error" in line:
            row.fail(side, "text", text, found, line.get("error", line))
            continue
        fields = {name: int(value) for name, value in line["fields"].items()}
        expected = row.expected(found) | {"unix_ms": found["unix_ms"]}
        for name in expected.keys() | fields.keys():
            if expected.get(name) != fields.get(name):
                row.fail(side, name, text, expected.get(name), fields.get(name))
        for name, value in [("hex", line["hex"]), ("text", text)]:
            if found[name] != value:
                row.fail(side, name, text, found[name], value)
        first, last = (PAST_MS, PAST_MS) if row.past else (begin_ms - row.tick_ms, end_ms)
        if not first <= fields["unix_ms"] <= last:
            row.fail(side, f"time from {first} to {last}", text, found["unix_ms"], fields["unix_ms"])
        if side == "kent" and (found["slot"], found.get("shard", TAG)) != (daemon_slot, TAG):
            row.fail(side, "slot and shard", text, (found["slot"], found.get("shard")), (daemon_slot, TAG))
        if side == "library" and row.machine:
            numbers.add(row.machine(found))
    if side == "library" and row.machine and (len(numbers) != 1 or row.number not in (None, *numbers)):
        row.fail(side, "machine number", "all", sorted(numbers)[:5], row.number or "one number")
    if side == "kent":
        # Decimal numbers have no leading zeros, and the other texts have one length.
        by_text = sorted(texts, key=lambda text: (len(text), text))
        by_bits = [line["id"] for line in sorted(lines, key=lambda line: line.get("hex", ""))]
        for name, ascending in [("order of the text", by_text), ("order of the bits", by_bits)]:
            for position, (text, other) in enumerate(zip(texts, ascending, strict=True)):
                if text != other:
                    row.fail(side, name, f"identifier {position}", text, other)
        times = [int(line["fields"]["unix_ms"]) for line in lines if "fields" in line]
        if times != sorted(times):
            row.fail(side, "order of the time", texts[0], "ascending times", "other times")


def main() -> None:
    slots = [entry["slot"] for entry in json.loads(kent("status", "--json"))["slots"]]
    if len(slots) != 1 or slots[0] == 0:
        sys.exit(f"the daemon must have one slot, which is not 0, but has {slots}")
    begin_ms = time.time_ns() // 1_000_000
    ours = {}
    for row in ROWS:
        if row.layout not in ours and not row.past:
            kent("layout", "create", row.layout, "--preset", row.preset, *row.options)
            tag = ["--tag", str(TAG)] if row.preset == "snowflake-instagram" else []
            ours[row.layout] = kent("alloc", f"layout:{row.layout}", "-n", str(COUNT), *tag).split()
            if len(set(ours[row.layout])) != COUNT:
                sys.exit(f"{row.title}: kent alloc did not print {COUNT} identifiers")
    lines = answers(ours)
    end_ms = time.time_ns() // 1_000_000
    missing = {line.split()[0] for line in kent("layout", "presets").splitlines()[1:]} - {row.preset for row in ROWS}
    if missing:
        sys.exit(f"no library for the presets {sorted(missing)}")

    table = [("PRESET", "LIBRARY", "READ THEIRS", "READ OURS")]
    failures = []
    for row in ROWS:
        for side in ["library"] if row.past else ["library", "kent"]:
            of_row = [
                line
                for line in lines
                if (line["layout"], line["library"], line["from"]) == (row.layout, row.library, side)
            ]
            compare(row, side, of_row, ours.get(row.layout, []), slots[0], begin_ms, end_ms)
            failures.extend(row.failures[side].values())
        library = ", ".join(f"{name} {version(row.program, name)}" for name in row.library.split(", "))
        results = ["failed" if row.failures[side] else len(row.texts[side]) or "none" for side in ["library", "kent"]]
        table.append((row.title, library, str(results[0]), f"{results[1]}{row.note}"))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for entry in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(entry, widths, strict=True)).rstrip())
    if failures:
        sys.exit("\n".join(failures))


main()
