#!/usr/bin/env bash
# The summary of all measurements, docs/evidence/measurements.md, from its head and its data, which lie beside it in
# data/:
#
#   scripts/measurements.sh            writes it
#   scripts/measurements.sh --check    fails if it differs from what would be written
#
# A data file has header lines "# KEY: VALUE" (topic, what, figure, command, machine, date; any number of notes), then a
# table whose first row is its head. Columns are divided by tabs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

summary=docs/evidence/measurements.md

# The sections, in this order.
topics=(
    "Everyday use and real programs"
    "First and later runs"
    "Pipelines that differ in state alone"
    "Order of the sources"
    "Background work"
    "Served calls"
    "The store"
    "Siblings and bases"
    "Prewarming and the tool"
    "Devices and whole processes"
    "Size of the library"
)

# section TOPIC FILE...: the rows of the files with this topic, below a heading. A topic that is not listed would leave
# its file out, so the caller counts the rows.
section() {
    local topic=$1
    shift
    awk -v topic="$topic" '
        function cell(text) { gsub(/\|/, "\\|", text); return text }
        function code(text) { return text == "not recorded" ? text : "`" cell(text) "`" }
        function row(name) {
            if (value["topic"] != topic) return
            if (!rows++) {
                print "\n## " topic "\n"
                print "| what | figure | command | date | machine | data |\n|---|---|---|---|---|---|"
            }
            name = file
            sub(/^.*\//, "", name)
            print "| " cell(value["what"]) " | " cell(value["figure"]) " | " \
                code(value["command"]) " | " value["date"] " | " cell(value["machine"]) " | [" name "](data/" name ") |"
        }
        FNR == 1 { if (file != "") row(); file = FILENAME; delete value }
        /^# [a-z]+: / {
            text = $0
            sub(/^# [a-z]+: /, "", text)
            value[substr($2, 1, length($2) - 1)] = text
        }
        END { row() }
    ' "$@"
}

written() {
    local topic
    cat docs/evidence/head.md
    for topic in "${topics[@]}"; do section "$topic" docs/evidence/data/*.tsv; done
}

scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
# The order of the file names is the same everywhere.
LC_ALL=C
written >"$scratch"
files=(docs/evidence/data/*.tsv)
rows=$(grep -c '](data/[^)]*\.tsv) |$' "$scratch" || true)
[ "$rows" = "${#files[@]}" ] || fail "$rows of ${#files[@]} data files have a topic that this script lists"
if [ "${1:-}" = --check ]; then
    cmp -s "$scratch" "$summary" || fail "$summary differs from what scripts/measurements.sh writes"
else
    cat "$scratch" >"$summary"
fi
