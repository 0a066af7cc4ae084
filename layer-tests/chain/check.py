#!/usr/bin/env python3
"""Runs programs of Windows without the layer and with it, and compares. scripts/chain.sh --check starts it in its root.

    check.py [--only TEXT]     TEXT is a part of "DRIVER PROGRAM RENDERER CHECK"
    check.py --time ROUNDS     checks nothing: whole processes without the layer and with it, in turn, all settings as
                               they are without any, and the driver's own cache warm

Nothing that is checked depends on the time: a program says where it is and goes on when it is told to (ends.h), and it
is told to when the layer's workers and the program's own threads have had nothing to do for a while, as `vkstash watch`
shows it. Prints a line for each run and each failure; exit status 1: something failed.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "vkstash")
WORK = "/tmp/chain"
DISPLAY = ":7"
LOOKS = 10
PATIENCE = 300

DRIVERS = {
    "lavapipe": {"VK_DRIVER_FILES": "/usr/share/vulkan/icd.d/lvp_icd.json"},
    # What is presented is copied to the X server: there is no GPU.
    "radv": {
        "VK_DRIVER_FILES": "/usr/share/vulkan/icd.d/radeon_icd.json",
        "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libamdgpu_noop_drm_shim.so",
        "AMDGPU_GPU_ID": "navi21",
        "MESA_VK_WSI_DEBUG": "sw,linear",
    },
}
# Wine's d3d12 does not know the adapters of DXVK's dxgi, so it has a prefix of its own.
GAMES = {
    "direct3d11": ("sdl.exe", "prefix.dxvk"),
    "direct3d9": ("sdl.exe", "prefix.dxvk"),
    "direct3d12": ("wgpu.exe", "prefix.plain"),
}
# How SDL calls it.
RENDERERS = {"direct3d9": "direct3d"}
# Of wgpu.c: what it asks for after it was told to go on.
WGPU_PIPELINES = 48 + 8
# The codes of ends.h; msvcrt's abort ends with 3, and of the number of an access violation Unix keeps 5.
CODES = {"return": 3, "quit": 3, "exit": 4, "terminate": 5, "abort": 3, "crash": 5, "killed": -signal.SIGKILL}
# Why a pipeline was not ready, in docs/schema/stats.json.
UNREADY = ("not_planned", "asked_first", "no_processor_free", "not_kept", "never_ahead", "other_samplers",
           "released_before", "asked_again", "own_allocator")

failures = []
started = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - started:4.0f} s] {text}", flush=True)


def expect(condition, what):
    if not condition:
        failures.append(what)
        say(f"FAILED: {what}")


def environment(driver, prefix, stash, hurried):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("VK", "MESA_", "WINE", "DXVK"))}
    env |= {
        "HOME": WORK, "DISPLAY": DISPLAY, "LC_ALL": "C.UTF-8", "NODEVICE_SELECT": "1", "DXVK_LOG_LEVEL": "none",
        "WINEPREFIX": os.path.join("/opt", prefix), "WINEDEBUG": "-all", "MESA_SHADER_CACHE_DISABLE": "true",
        # No debugger and no downloads.
        "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe,winedbg.exe=",
        "VK_ADD_IMPLICIT_LAYER_PATH": HERE,
    }
    env |= DRIVERS[driver]
    if stash:
        env |= {
            "VKSTASH": "1", "VKSTASH_DIR": stash,
            # However busy the machine is (layer-tests/src/env.rs).
            "VKSTASH_OPEN_MS": "100000", "VKSTASH_TEST_UNHURRIED": "1",
            "VKSTASH_BACKGROUND_WORKERS": "1", "VKSTASH_FINISH": "0", "VKSTASH_UPDATE": "0",
        }
        # Wine kills what has not ended a second after it was to: only where nothing is left to do, the layer may wait.
        if not hurried:
            env["VKSTASH_END_MS"] = "100000"
    return env


def usual_environment(driver, prefix, stash):
    """As a user has it: Mesa's cache is on, and one of its own for each side of a comparison."""
    env = environment(driver, prefix, None, True)
    del env["MESA_SHADER_CACHE_DISABLE"]
    env["MESA_SHADER_CACHE_DIR"] = f"{WORK}/mesa-{driver}-{'with' if stash else 'without'}"
    return env | ({"VKSTASH": "1", "VKSTASH_DIR": stash} if stash else {})


def tool(*arguments, stash="/nowhere"):
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | {"VKSTASH_DIR": stash}
    ran = subprocess.run([TOOL, *arguments], env=env, capture_output=True, text=True, check=False)
    try:
        return json.loads(ran.stdout)
    except ValueError:
        return None


def settle(with_layer):
    """Returns when no thread of a program is in a call that creates a pipeline, nor a worker at work; with the counters
    of the programs that run."""
    if not with_layer:
        # Nobody says what goes on in it: DXVK's threads compile what they have begun.
        time.sleep(2)
        return {}
    quiet, last, began = 0, None, time.monotonic()
    while quiet < LOOKS and time.monotonic() - began < PATIENCE:
        programs = tool("watch", "--once", "--json") or []
        seen = [(one.get("pid"), one.get("counters"), one.get("written_records")) for one in programs]
        busy = any(one.get("calls") or one.get("workers_paused") for one in programs)
        quiet = quiet + 1 if seen and seen == last and not busy else 0
        last = seen
        time.sleep(0.1)
    counters = {}
    for _, counted, _ in last or []:
        for name, count in (counted or {}).items():
            counters[name] = counters.get(name, 0) + count
    return counters


class Run:
    """One run of a program; `words` come before it, such as a launcher."""

    def __init__(self, driver, renderer, end, stash=None, words=(), waits=("ready", "drawn"), usual=False):
        program, prefix = GAMES[renderer]
        env = usual_environment(driver, prefix, stash) if usual else environment(driver, prefix, stash, not waits)
        self.picture = None
        self.said = []
        # What was counted when it was told to go on.
        self.counted = {}
        began = time.monotonic()
        log = open(f"{WORK}/stderr", "w+", encoding="utf-8", errors="replace")
        command = ["wine", *words, program, RENDERERS.get(renderer, renderer), end]
        self.child = subprocess.Popen(command, cwd=HERE, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=log, text=True)
        launched = None
        for line in self.child.stdout:
            word = line.split()
            self.said += word[:1]
            if word[:1] == ["launched"]:
                # The launcher's end, while the game goes on.
                launched = self.child.wait(PATIENCE)
            elif word[:1] == ["picture"]:
                self.picture = word[1]
            elif word[:1] in (["ready"], ["drawn"]):
                # Without the layer nothing is made ready.
                if word[0] in waits and (stash or word[0] == "drawn"):
                    self.counted[word[0]] = settle(stash is not None)
                self.go_on()
            elif word[:1] == ["done"] and end == "killed":
                self.child.kill()
        self.code = self.child.wait(PATIENCE) if launched is None else launched
        subprocess.run(["wineserver", "-k"], env=env, check=False)
        subprocess.run(["wineserver", "-w"], env=env, check=False)
        self.seconds = time.monotonic() - began
        log.seek(0)
        self.stderr = [line.strip() for line in log if "DRM_IOCTL" not in line and "XDG_RUNTIME" not in line]
        self.name = f"{driver} {program} {renderer} {'launched' if words else end}{'' if waits else ' at once'}"
        self.counters, self.pipelines, self.ready = {}, 0, 0
        text = ""
        if stash:
            stats = tool("stats", "--json", stash=stash) or {"applications": []}
            run = next((one["last_run"] for one in stats["applications"] if one["last_run"]), None)
            self.stats = stats
            if run:
                self.counters, self.pipelines, self.ready = run["counters"], run["pipelines"], run["ready"]
            kept = {name: count for name, count in self.counters.items() if count and not name.endswith("_ns")}
            text = f"; {self.ready} of {self.pipelines} ready; {kept}"
        say(f"{self.name}, {'with' if stash else 'without'} the layer: {self.picture}, code {self.code}, "
            f"{self.seconds:.1f} s{text}")

    def go_on(self):
        try:
            self.child.stdin.write("\n")
            self.child.stdin.flush()
        except OSError:
            pass

    def count(self, name):
        return self.counters.get(name, 0)

    def check_end(self, expected, end, others=()):
        where = f"{self.name}: {' '.join(self.said)}"
        expect(self.picture is not None and self.picture == expected, f"{where}: {self.picture}, and not {expected}")
        expect(self.code in (CODES[end], *others),
               f"{where}: code {self.code}, and not {CODES[end]}; {' / '.join(self.stderr[-3:])}")


def fresh(name):
    stash = f"{WORK}/stash-{name}"
    shutil.rmtree(stash, ignore_errors=True)
    return stash


def check_ready(run, driver, renderer, number):
    """Run `number` with one stash: the first can have nothing ready, the others all of what can be kept."""
    reasons = sum(run.count(reason) for reason in UNREADY)
    where = f"{run.name}, run {number}"
    expect(run.pipelines > 0, f"{where}: no pipelines")
    expect(run.count("internal_failures") == 0 and run.count("failed") == 0, f"{where}: {run.counters}")
    # Each pipeline was parked, or there is a reason why it was not.
    expect(run.count("parked") + reasons == run.pipelines,
           f"{where}: {run.count('parked')} parked and {reasons} reasons of {run.pipelines} pipelines")
    if number == 1:
        expect(run.count("served") + run.count("parked") == 0, f"{where}: something was ready")
        return
    expect(run.count("parked") > 0, f"{where}: nothing was ready before the program asked")
    if driver == "radv":
        expect(run.ready == run.pipelines, f"{where}: {run.ready} of {run.pipelines} ready")
        return
    # lavapipe's caches keep nothing: what is ready was made by workers. What the program asks for after they had
    # nothing left to do is ready, all of it.
    compiled, before = run.count("compiled_unrecorded"), run.counted["ready"].get("compiled_unrecorded", 0)
    expect(compiled == before, f"{where}: {compiled} compiled, {before} of them before the workers were done")
    if renderer == "direct3d12":
        expect(run.count("parked") >= WGPU_PIPELINES, f"{where}: only {run.count('parked')} parked")


def three_runs(driver, renderer):
    expected = Run(driver, renderer, "exit")
    expected.check_end(expected.picture, "exit")
    stash = fresh(f"{driver}-{renderer}")
    for number in (1, 2, 3):
        run = Run(driver, renderer, "exit", stash)
        run.check_end(expected.picture, "exit")
        check_ready(run, driver, renderer, number)


def ends_of(driver, renderer):
    # Only SDL has the end "quit"; and on the fake node it dies without the layer, too.
    return [end for end in CODES if end != "quit" or (driver, renderer) == ("lavapipe", "direct3d11")]


def all_ends(driver, renderer):
    stash = fresh(f"ends-{driver}-{renderer}")
    for end in ends_of(driver, renderer):
        expected = Run(driver, renderer, end)
        expected.check_end(expected.picture, end)
        Run(driver, renderer, end, stash, waits=("drawn",)).check_end(expected.picture, end)
    # What programs have recorded that ended in any way is ready.
    check_ready(Run(driver, renderer, "exit", stash), driver, renderer, 2)


def ends_at_once(driver, renderer):
    """While threads of DXVK compile what is to be quicker in the next frames."""
    stash = fresh(f"at-once-{driver}-{renderer}")
    picture = Run(driver, renderer, "exit").picture
    for end in ends_of(driver, renderer):
        # A thread that Wine ends in LLVM brings the program down now and then, without the layer too.
        died = (-signal.SIGSEGV,) if driver == "lavapipe" else ()
        Run(driver, renderer, end, waits=()).check_end(picture, end, died)
        Run(driver, renderer, end, stash, waits=()).check_end(picture, end, died)


def launched(driver, renderer):
    stash = fresh(f"launched-{driver}-{renderer}")
    for number in (1, 2):
        run = Run(driver, renderer, "exit", stash, words=("launcher.exe",))
        expect(run.code == 0, f"{run.name}: the launcher's code is {run.code}")
        expect(run.said[:1] == ["launched"] and run.said[-1:] == ["done"], f"{run.name}: {run.said}")
        check_ready(run, driver, renderer, number)
        names = [one["name"] for one in run.stats["applications"]]
        expect(names == [os.path.splitext(GAMES[renderer][0])[0]], f"{run.name}: the stash is of {names}")
    # The game alone is the same game, and knows its folder however Wine's command line names it.
    Run(driver, renderer, "exit", stash, waits=())
    alone = [one["program"] for one in tool("stats", "--json", stash=stash)["applications"]]
    expect(len(alone) == 1 and "/" in alone[0].replace("\\", "/"), f"{driver} {renderer} alone: {alone}")
    say(f"{driver} {renderer} launched and alone: {alone}")


def timing(driver, renderer, rounds):
    stash = fresh(f"time-{driver}-{renderer}")
    sides = [], []
    # The caches of both sides are cold in the first round, and the second run is the first that finds a stash.
    for number in range(2 + rounds):
        for side, kept in zip(sides, (None, stash)):
            run = Run(driver, renderer, "exit", kept, waits=(), usual=True)
            side.extend([run.seconds] if number >= 2 else [])
    ratios = [one / other for other, one in zip(*sides)]
    without, beside = map(statistics.median, sides)
    say(f"{driver} {GAMES[renderer][0]} {renderer}, whole process: {without:.2f} s without, {beside:.2f} s with the "
        f"layer, {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def main():
    rounds = int(sys.argv[2]) if sys.argv[1:2] == ["--time"] else 0
    only = sys.argv[2] if sys.argv[1:2] == ["--only"] else ""
    os.makedirs(WORK, exist_ok=True)
    server = subprocess.Popen(["Xvfb", DISPLAY, "-screen", "0", "1024x768x24"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    while not os.path.exists(f"/tmp/.X11-unix/X{DISPLAY[1:]}"):
        time.sleep(0.1)
    checks = {
        "three runs": three_runs, "all ends": all_ends, "launched": launched,
        "ends at once": ends_at_once,
    }
    for driver in DRIVERS:
        for renderer in GAMES:
            if rounds:
                timing(driver, renderer, rounds)
                continue
            for name, check in checks.items():
                # Ends and launchers have nothing to do with the version of Direct3D that DXVK translates.
                if renderer == "direct3d9" and name != "three runs":
                    continue
                title = f"{driver} {GAMES[renderer][0]} {renderer} {name}"
                if only in title:
                    say(f"== {title}")
                    check(driver, renderer)
    server.kill()
    for failure in failures:
        print(f"FAILED: {failure}")
    if not rounds:
        say("all is the same with the layer" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
