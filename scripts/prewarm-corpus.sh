#!/usr/bin/env bash
# prewarm-corpus.sh [JOBS...]: `vkstash prewarm` of real shaders of which one hangs a real compiler and another one
# crashes it. The driver is RADV's null device. The recipes are recorded on the programmable driver, which compiles
# nothing, and imported. Checks that the command names both modules, and that a program is served all others afterwards;
# prints for each number of jobs (default: the command's own default, and 2) how long it took and how busy its workers
# kept the processors.
#
# Needs a build and the corpus (scripts/corpus.sh). VKSTASH_BUILT: the folder of the build, target/release.
# VKSTASH_MAX_BYTES: the longest module, 32000. VKSTASH_TIMEOUT: seconds after which a compile counts as hanging, 5;
# RADV needs two minutes for the module that hangs. Other work on the machine lowers the figure: `chrt -f 10` in front
# keeps it out where that is allowed, but for the 5 % of the time that the kernel keeps for others.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

built=${VKSTASH_BUILT:-$(target_folder)/release}
longest=${VKSTASH_MAX_BYTES:-32000}
timeout=${VKSTASH_TIMEOUT:-5}
[ -x "$built/vkstash-corpus" ] ||
    fail "no vkstash-corpus in $built: cargo build --release --workspace, or VKSTASH_BUILT"
[ -s corpus/index.tsv ] || fail "no corpus: run scripts/corpus.sh"
mesa_has_null_device || fail "this Mesa has no RADV null device"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The modules: those of the corpus up to a length, with the first one of slow-modules.txt, and one that calls itself.
python3 - corpus "$folder" "$longest" layer-tests/data/slow-modules.txt <<'PYTHON'
import hashlib, json, os, struct, sys

corpus, folder, longest, slow_list = sys.argv[1:]
slow = [line.split()[0] for line in open(slow_list) if line.split() and not line.startswith("#")]


def op(code, *words):
    return [(len(words) + 1) << 16 | code, *words]


# SPIR-V forbids recursion; RADV's compiler inlines calls until its stack overflows.
NAME = list(struct.unpack("<2I", b"main\0\0\0\0"))
words = [0x07230203, 0x10000, 0, 7, 0,
    *op(17, 1),                       # OpCapability Shader
    *op(14, 0, 1),                    # OpMemoryModel Logical GLSL450
    *op(15, 5, 4, *NAME),             # OpEntryPoint GLCompute %4 "main"
    *op(16, 4, 17, 1, 1, 1),          # OpExecutionMode %4 LocalSize 1 1 1
    *op(19, 2),                       # %2 = OpTypeVoid
    *op(33, 3, 2),                    # %3 = OpTypeFunction %2
    *op(54, 2, 4, 0, 3),              # %4 = OpFunction %2 None %3
    *op(248, 5),                      # %5 = OpLabel
    *op(57, 2, 6, 4),                 # %6 = OpFunctionCall %2 %4
    *op(253), *op(56)]                # OpReturn, OpFunctionEnd
crash = struct.pack(f"<{len(words)}I", *words)


def identity(code):
    # As crates/model/src/identifier.rs: no flags.
    return hashlib.sha256(b"vks:module1\0" + bytes(4) + code).hexdigest()


os.makedirs(f"{folder}/good")
os.makedirs(f"{folder}/all")
names = {"crash": identity(crash)}
good = 0
for name in sorted(os.listdir(corpus)):
    path = os.path.abspath(f"{corpus}/{name}")
    if not name.endswith(".spv") or os.path.getsize(path) > int(longest):
        continue
    code = open(path, "rb").read()
    os.symlink(path, f"{folder}/all/{name}")
    if hashlib.sha256(code).hexdigest()[:16] not in slow:
        os.symlink(path, f"{folder}/good/{name}")
    elif "hang" not in names:
        names["hang"] = identity(code)
    else:
        os.remove(f"{folder}/all/{name}")
# In the middle of the others.
open(f"{folder}/all/00005000-crash.spv", "wb").write(crash)
if "hang" not in names:
    sys.exit("no module of slow-modules.txt is in the corpus")
json.dump(names, open(f"{folder}/names.json", "w"))
PYTHON

export HOME=$folder/home XDG_DATA_HOME=$folder/home/data XDG_CACHE_HOME=$folder/home/cache
export VKSTASH_LIBRARY=$built/libVkLayer_vkstash.so
export RADV_FORCE_FAMILY=navi21 NODEVICE_SELECT=1 MESA_SHADER_CACHE_DISABLE=1
mkdir -p "$HOME"
library=$built/libvkstash_test_icd.so
echo "{\"file_format_version\":\"1.0.0\",\"ICD\":{\"library_path\":\"$library\",\"api_version\":\"1.3.0\"}}" \
    >"$folder/test_icd.json"
radv=$(find /usr/share/vulkan/icd.d -name 'radeon_icd*.json' ! -name '*i686*' | head -n 1)
# on DRIVER STASH COMMAND...
on() { VK_DRIVER_FILES=$1 VK_ICD_FILENAMES=$1 VKSTASH_DIR=$2 "${@:3}"; }
client=("$built/vkstash-corpus" --keep-slow --max-bytes 1000000000)

on "$folder/test_icd.json" "$folder/recorded" env VKSTASH_END_MS=60000 \
    "$built/vkstash" run -- "${client[@]}" --modules "$folder/all" >/dev/null 2>"$folder/log" ||
    fail "$(tail -n 3 "$folder/log")"
VKSTASH_DIR=$folder/recorded "$built/vkstash" export --portable "$folder/recorded.tar" >/dev/null

failed=no
[ "$#" != 0 ] || set -- default 2
for jobs; do
    stash=$folder/stash.$jobs
    VKSTASH_DIR=$stash "$built/vkstash" import "$folder/recorded.tar" >/dev/null
    number=()
    [ "$jobs" = default ] || number=(--jobs "$jobs")
    on "$radv" "$stash" "$built/vkstash" prewarm --all --every-device --json --timeout "$timeout" "${number[@]}" \
        >"$folder/report.json" 2>"$folder/log" || true
    # What the program is served then, by the layer's own count.
    on "$radv" "$stash" env VKSTASH_BACKGROUND_WORKERS=0 \
        "$built/vkstash" run -- "${client[@]}" --modules "$folder/good" \
        >"$folder/client" 2>"$folder/served"
    python3 - "$folder" "$jobs" <<'PYTHON' || failed=yes
import json, re, sys

folder, jobs = sys.argv[1:]
report = json.load(open(f"{folder}/report.json"))
names = json.load(open(f"{folder}/names.json"))
# The client leaves out modules with capabilities that not every device has.
good = int(re.search(r"(\d+) modules", open(f"{folder}/client").read()).group(1))
served = int(re.search(r"(\d+) served", open(f"{folder}/served").read()).group(1))
named = {module: culprit["reason"] for culprit in report["quarantined"] for module in culprit["modules"]}
busy = report["cpu_seconds"] / report["seconds"] / report["jobs"]
print(f"jobs {report['jobs']} ({jobs}): {good + 2} pipelines, made {report['made']}, checked {report['checked']}, "
      f"{report['seconds']:.2f} s, processors {report['cpu_seconds']:.2f} s, busy {busy:.1%}; "
      f"the program is served {served} of {good}")
for what in "hang", "crash":
    print(f"  {what}: module {names[what][:16]}...: the worker {named.get(names[what], 'NOT NAMED')}")
right = {names["hang"], names["crash"]} == set(named) and report["made"] == report["checked"] == served == good
right = right and "answer" in named[names["hang"]] and "died" in named[names["crash"]]
if not right:
    print("  WRONG:", json.dumps(report["quarantined"]), open(f"{folder}/log").read()[-500:])
sys.exit(not right)
PYTHON
done
[ "$failed" = no ]
