#!/usr/bin/env python3
"""Compares what programs see with two builds of the layer, in all suites.

    VKSTASH_TEST_OBSERVED=FOLDER cargo nextest run     with the old build, twice, and with the new one
    scripts/observed.py OLD OLD_AGAIN NEW

Each step of each test leaves its answer (results, feedback, data of caches as far as the test reads them) and the
layer's counters. What differs between the two runs of the old build depends on time and is left out. Prints one line
for each value that differs, and ends with 1 if there is one.
"""

import hashlib
import json
import pathlib
import sys


def flat(value, path=""):
    """The leaves of a JSON value by their path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}")
    elif isinstance(value, list) and len(value) > 256:
        # The data of a cache.
        yield path, f"{len(value)} values, {hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]}"
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        for index, inner in enumerate(value):
            yield from flat(inner, f"{path}[{index}]")
    else:
        yield path, value


def read(folder):
    """The leaves of every step of every test: test -> path -> value."""
    tests = {}
    for file in sorted(pathlib.Path(folder).rglob("*")):
        if file.is_file():
            # Steps that run side by side may end in any order.
            steps = sorted(file.read_text().splitlines(), key=lambda line: json.loads(line)["step"])
            leaves = {}
            for number, line in enumerate(steps):
                leaves.update(flat(json.loads(line), f"{number}"))
            tests[str(file.relative_to(folder))] = leaves
    return tests


def main():
    old, again, new = map(read, sys.argv[1:4])
    differ = compared = noisy = 0
    for test in sorted(old.keys() & again.keys() & new.keys()):
        paths = old[test].keys() | new[test].keys()
        for path in sorted(paths):
            before, now = old[test].get(path, 0), new[test].get(path, 0)
            if before != again[test].get(path, 0):
                noisy += 1
                continue
            compared += 1
            if before != now:
                differ += 1
                print(f"{test}: {path}: {before} -> {now}"[:240])
    for test in sorted(old.keys() ^ new.keys()):
        print(f"{test}: in one of the builds only")
    print(f"{compared} values compared, {noisy} depend on time, {differ} differ", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
