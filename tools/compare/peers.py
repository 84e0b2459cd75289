#!/usr/bin/env python3
"""promptcache beside other runtimes: the same weights, tokens and number of threads, in turns.

    peers.py prepare --work DIR --build BUILD  fetches and builds what is missing, writes the
                                               models, compiles the sides
    peers.py check   --work DIR --build BUILD  compares logits with llama.cpp's for the same tokens
    peers.py run     --work DIR --build BUILD  measures; a stopped run goes on, but another
                                               libpromptcache starts anew
    peers.py table   --work DIR [--json]       the results of the library measured last

--peers llama.cpp,openvino,ctranslate2 chooses the runtimes (llama.cpp). DIR takes about 4 GB, 6
with all peers; two sides take up to 8 GB of memory. BUILD is a build folder of promptcache with its
shared library. llama.cpp comes from PyPI's source package llama-cpp-python (pip, or --package FILE)
and is built for this CPU (GGML_NATIVE, Release). OpenVINO and CTranslate2 are packages of the
Python that runs this script (pip install openvino==2026.4.1 openvino-genai==2026.4.1.0
ctranslate2==4.8.5). They read the Q8_0 weights in 8-bit forms of their own. The models have the
shape of a 1.1 B Llama with random weights, or --model names others (llama.cpp only). Needs cmake, a
C++ compiler, numpy.
The first round measures all modes of a peer (llama.cpp: flash attention on and off, one shared
buffer or a stream for each sequence; OpenVINO: most tokens of a step). Later rounds leave out modes
that were more than 25 % behind the best one, and the best one counts.
"""
import argparse
import glob
import hashlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VERSION = "0.3.36"
OURS, LLAMA, OPENVINO, CTRANSLATE2 = "promptcache", "llama.cpp", "openvino", "ctranslate2"
PACKAGES = {OPENVINO: "openvino_genai", CTRANSLATE2: "ctranslate2"}
ATTENTION = {"fa off": "0", "fa on": "1"}
STREAMS = {
    f"{fa}, {name}": f"{number} {own}"
    for name, own in (("shared", 0), ("own copies", 1))
    for fa, number in ATTENTION.items()
}
STEPS = {"256 tokens a step": "256", "2048 tokens a step": "2048"}
QUIET = 0.1  # cores that others may use without a measurement being called disturbed
AHEAD = 1.25  # modes further behind the best are measured once only

# name, command, how many sequences decode, how many rounds at most, goals by peer and weights
CASES = [
    ("prefill 512", "prefill 512", 0, 5, {LLAMA: {"q8_0": 2.6}, OPENVINO: {"q8_0": 1.05}}),
    ("prefill 2048", "prefill 2048", 0, 3, {LLAMA: {"q8_0": 2.6}, OPENVINO: {"q8_0": 1.05}}),
    ("TTFT, 64 of 2048 new", "ttft 2048 64", 0, 9, {}),
    ("decode at depth 0", "decode 0 12", 1, 9, {LLAMA: {"q8_0": 1.02, "bf16": 1}}),
    ("decode at depth 4096", "decode 4096 12", 1, 9, {LLAMA: {"q8_0": 1.5, "bf16": 1.5}}),
    ("decode, 8 over 2048 + 128", "shared 2048 128 8 6", 8, 9, {}),
    ("decode, 32 over 2048 + 128", "shared 2048 128 32 5", 32, 9, {LLAMA: {"q8_0": 4.5}}),
]


def modes_of(peer, case):
    """{name: the word behind the command's name} of a peer's modes."""
    if peer == LLAMA:
        return STREAMS if case[1].startswith("shared") else ATTENTION
    return STEPS if peer == OPENVINO else {"": ""}


def with_mode(text, word):
    name, numbers = text.split(" ", 1)
    return f"{name} {word} {numbers}" if word else text


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def command(*words, **options):
    say("$", " ".join(words))
    if subprocess.run(words, **options).returncode:
        sys.exit(f"peers.py: {words[0]} failed")


# ------------------------------------------------------------------- set-up


def package(options):
    """The source package, fetched if need be."""
    if options.package:
        return options.package
    pattern = os.path.join(options.work, "llama_cpp_python-*.tar.gz")
    if not glob.glob(pattern):
        name = "llama-cpp-python"
        command(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", name,
                f"{name}=={VERSION}", "-d", options.work)
    return sorted(glob.glob(pattern))[-1]


def barrier(source):
    """GCC 12 takes the AMX tile configuration for 8 bytes long and drops the stores to the rest of
    it: quantised weights would end in SIGSEGV."""
    path, call = os.path.join(source, "ggml/src/ggml-cpu/amx/mmq.cpp"), "_tile_loadconfig(&tc);"
    version = subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True).stdout
    with open(path) as file:
        text = file.read()
    if version.startswith("12.") and 'asm volatile("" : : "r"(&tc)' not in text:
        say("GCC 12: a compiler barrier before", call)
        with open(path, "w") as file:
            file.write(text.replace(call, f'__asm__ volatile("" : : "r"(&tc) : "memory"); {call}'))


def build_llama(options):
    source, build = os.path.join(options.work, "src/vendor/llama.cpp"), os.path.join(
        options.work, "build")
    if glob.glob(os.path.join(build, "bin/libllama.so*")):
        return
    if not os.path.isdir(source):
        with tarfile.open(package(options)) as archive:
            top = archive.next().name.split("/")[0]
            archive.extractall(options.work)
        os.rename(os.path.join(options.work, top), os.path.join(options.work, "src"))
    barrier(source)
    off = [
        f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "SERVER", "TOOLS", "COMMON")
    ]
    command("cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
            "-DLLAMA_CURL=OFF", *off)
    command("nice", "cmake", "--build", build, "--target", "llama", "-j", str(options.threads))


def compile_sides(options):
    source, build = os.path.join(options.work, "src/vendor/llama.cpp"), os.path.join(
        options.work, "build/bin")
    cc = ["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2"]
    command(*cc, "-I", os.path.join(ROOT, "include"), os.path.join(HERE, "peer_promptcache.c"),
            "-o", os.path.join(options.work, "peer_promptcache"), "-L", options.build,
            "-lpromptcache", "-Wl,-rpath," + os.path.abspath(options.build))
    if LLAMA in options.peers:
        command(*cc, "-I", source + "/include", "-I", source + "/ggml/include",
                os.path.join(HERE, "peer_llama_cpp.c"), "-o",
                os.path.join(options.work, "peer_llama_cpp"), "-L", build, "-lllama",
                "-lggml-base", "-Wl,-rpath," + os.path.abspath(build))


def models(options):
    """{name: path}; writes what is missing."""
    if options.model:
        return {os.path.splitext(os.path.basename(path))[0]: path for path in options.model}
    folder, found = os.path.join(options.work, "models"), {}
    os.makedirs(folder, exist_ok=True)
    for kind in options.weights.split(","):
        found[kind] = os.path.join(folder, f"{options.shape}-{kind}.gguf")
        if not os.path.exists(found[kind]):
            command(sys.executable, os.path.join(HERE, "random_gguf.py"), found[kind], "--type",
                    kind, "--shape", options.shape)
    return found


def folder_of(options, peer):
    """A peer's own form of the Q8_0 weights."""
    return os.path.join(options.work, "models", f"{options.shape}-{peer}")


def convert(options, path):
    for peer, words in ((OPENVINO, ["--weights", options.openvino_weights]), (CTRANSLATE2, [])):
        folder = folder_of(options, peer)
        if peer in options.peers and not os.path.exists(folder):
            command(sys.executable, os.path.join(HERE, f"{peer}_model.py"), path, folder + ".part",
                    "--shape", options.shape, *words)
            os.rename(folder + ".part", folder)


def states(options, path):
    """Where llama.cpp keeps long prompts that are set-up only; they serve all weight formats of
    one shape."""
    folder = os.path.join(options.work, "states",
                          options.shape if not options.model else os.path.basename(path))
    os.makedirs(folder, exist_ok=True)
    return folder


# -------------------------------------------------------------------- sides


def cpu_seconds(pid=None):
    """Of one process, or all busy time of the machine."""
    tick = os.sysconf("SC_CLK_TCK")
    if pid is None:
        with open("/proc/stat") as file:
            fields = [int(x) for x in file.readline().split()[1:]]
        return (sum(fields) - fields[3] - fields[4]) / tick
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick


class Side:
    """A program that answers commands; started when first asked, and again after it died."""

    def __init__(self, *words, patient=False):
        """patient: its threads sleep while they wait for each other; kinder to other work on the
        machine, but not how it is measured."""
        self.words, self.process = words, None
        self.environment = dict(os.environ, OMP_WAIT_POLICY="passive") if patient else None

    def start(self):
        self.process = subprocess.Popen(self.words,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        text=True,
                                        env=self.environment)
        answer = self.answer()
        if "error" in answer:
            self.stop()
            sys.exit(f"peers.py: {self.words[0]}: {answer['error']}")

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        status = self.process.wait()
        self.process = None
        return {"error": f"the program ended with status {status}"}

    def ask(self, text):
        """The answer, with how many cores other processes kept busy meanwhile."""
        if not self.process:
            self.start()
        pid, machine, own, began = self.process.pid, cpu_seconds(), cpu_seconds(
            self.process.pid), time.monotonic()
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        if self.process:
            busy = cpu_seconds() - machine - (cpu_seconds(pid) - own)
            answer["others"] = round(max(0.0, busy) / max(0.05, time.monotonic() - began), 3)
        return answer

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def sides(options, name, path, patient=False):
    """Ours, and those peers that have the weights."""
    work, threads = options.work, str(options.threads)
    found = {
        OURS: Side(os.path.join(work, "peer_promptcache"), path, threads, options.compute),
        LLAMA: Side(os.path.join(work, "peer_llama_cpp"), path, threads, states(options, path),
                    patient=patient),
    }
    for peer in PACKAGES if name == "q8_0" else ():
        found[peer] = Side(sys.executable, os.path.join(HERE, f"peer_{peer}.py"),
                           folder_of(options, peer), threads)
    return {side: found[side] for side in (OURS, *options.peers) if side in found}


# -------------------------------------------------------------------- check


def logits(options, side, peer):
    import numpy

    path = os.path.join(options.work, "logits.f32")
    answer = peer.ask(f"logits {'' if side == OURS else '0 '}64 {path}")
    peer.stop()
    if "error" in answer:
        sys.exit(f"peers.py: {side}: {answer['error']}")
    rows = numpy.fromfile(path, dtype=numpy.float32).reshape(64, -1).astype(numpy.float64)
    os.remove(path)
    return rows


def check(options):
    """Logits of 64 tokens, our side against each peer that shows its own."""
    good = True
    for name, path in models(options).items():
        both = sides(options, name, path, patient=True)
        ours = logits(options, OURS, both[OURS])
        for side in (LLAMA, OPENVINO):
            if side not in both:
                continue
            theirs = logits(options, side, both[side])
            same = float((ours.argmax(1) == theirs.argmax(1)).mean())
            error = float((((ours - theirs)**2).sum() / (theirs**2).sum())**0.5)
            good = good and error < 0.05
            if options.json:
                print(json.dumps({"weights": name, "peer": side, "tokens": 64, "top1_equal": same,
                                  "relative_rms": error}))
            else:
                print(f"{name}, {side}: 64 tokens, largest logit the same at {100 * same:.0f} %, "
                      f"root mean square difference {100 * error:.2f} % of the logits'")
    return 0 if good else 1


# ---------------------------------------------------------------------- run


def library_of(options):
    """Which libpromptcache.so is measured: figures of two are never put together."""
    with open(os.path.join(options.build, "libpromptcache.so"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


def read_records(options, library=None):
    """Of one library; None: of the one that was measured last."""
    if not os.path.exists(options.records):
        return []
    with open(options.records) as file:
        records = [
            json.loads(line) for line in file if line.startswith("{") and line.endswith("}\n")
        ]
    library = library or (records[-1].get("library") if records else None)
    return [r for r in records if r.get("library") == library]


def value(records, **wanted):
    """Per round: the median of its repetitions, in seconds."""
    chosen = [
        r for r in records if all(r.get(k) == v for k, v in wanted.items()) and r.get("seconds")
    ]
    return {r["round"]: statistics.median(r["seconds"]) for r in chosen}


def worth_it(records, name, case, peer, mode, turn):
    if turn == 0:
        return True
    first = {
        m: value(records, weights=name, case=case[0], side=peer, mode=m).get(0)
        for m in modes_of(peer, case)
    }
    known = [seconds for seconds in first.values() if seconds]
    return bool(known) and first[mode] is not None and first[mode] <= AHEAD * min(known)


def wait_for_quiet(patience):
    """Until other work leaves the machine alone for a moment; both sides sleep meanwhile."""
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        before = cpu_seconds()
        time.sleep(0.25)
        if cpu_seconds() - before < 0.25 * QUIET:
            return


def measure(options, peer, text):
    """The answer; with --patience, the least disturbed one of up to three."""
    best = None
    for _ in range(3 if options.patience else 1):
        wait_for_quiet(options.patience)
        answer = peer.ask(text)
        if best is None or answer.get("others", 9) < best.get("others", 9):
            best = answer
        if best.get("others", 9) <= QUIET or "error" in answer:
            break
    return best


def one_round(options, library, records, name, peers, turn):
    for case in CASES:
        if turn >= min(options.rounds, case[3]) or (options.only
                                                    and not any(case[0].startswith(o)
                                                                for o in options.only)):
            continue
        jobs = [(OURS, "", case[1])]
        jobs += [(peer, mode, with_mode(case[1], word)) for peer in peers if peer != OURS
                 for mode, word in modes_of(peer, case).items()
                 if worth_it(records, name, case, peer, mode, turn)]
        for side, mode, text in jobs if turn % 2 == 0 else reversed(jobs):
            key = {
                "library": library, "weights": name, "case": case[0], "side": side, "mode": mode,
                "round": turn
            }
            if any(all(r.get(k) == v for k, v in key.items()) for r in records):
                continue
            record = key | measure(options, peers[side], text) | {
                "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            }
            say(name, "|", case[0], "|", side, mode, "|",
                record.get("error") or f"{1e3 * statistics.median(record['seconds']):.1f} ms",
                f"| others {record['others']:.2f} cores" if record.get("others", 0) > QUIET else "")
            records.append(record)
            with open(options.records, "a") as file:
                file.write(json.dumps(record) + "\n")


def run(options):
    library = library_of(options)
    records, names = read_records(options, library), models(options)
    ends, began = time.monotonic() + 60 * options.minutes, time.monotonic()
    for left, (name, path) in zip(range(len(names), 0, -1), names.items()):
        peers = sides(options, name, path)
        share = time.monotonic() + (ends - time.monotonic()) / left
        name += "" if options.compute == "default" else f", ours {options.compute}"
        longest = 0.0
        for turn in range(options.rounds):
            start = time.monotonic()
            if turn and start + longest > share:
                say(f"{name}: {turn} rounds in the time there is")
                break
            one_round(options, library, records, name, peers, turn)
            longest = time.monotonic() - start if turn != 1 else min(longest,
                                                                     time.monotonic() - start)
        for peer in peers.values():
            peer.stop()
    say(f"measured for {(time.monotonic() - began) / 60:.1f} minutes")
    return table(options, library)


# -------------------------------------------------------------------- table


def row_of(records, name, case, peer):
    ours = value(records, weights=name, case=case[0], side=OURS)
    modes = {
        mode: value(records, weights=name, case=case[0], side=peer, mode=mode)
        for mode in modes_of(peer, case)
    }
    modes = {mode: rounds for mode, rounds in modes.items() if rounds}
    if not ours or not modes:
        return None
    best = min(modes, key=lambda mode: statistics.median(modes[mode].values()))
    a, b = list(ours.values()), list(modes[best].values())
    ratios = [modes[best][r] / ours[r]
              for r in ours if r in modes[best]] or [statistics.median(b) / statistics.median(a)]
    busy = [
        r.get("others", 0) for r in records if r.get("weights") == name and r.get("case") == case[0]
    ]
    goal = case[4].get(peer, {}).get(name.split(",")[0])
    ratio = statistics.median(ratios)
    return {
        "weights": name,
        "case": case[0],
        "peer": peer,
        "batch": case[2],
        "rounds": len(ratios),
        "ours_ms": 1e3 * statistics.median(a),
        "ours_low_ms": 1e3 * min(a),
        "ours_high_ms": 1e3 * max(a),
        "theirs_ms": 1e3 * statistics.median(b),
        "theirs_low_ms": 1e3 * min(b),
        "theirs_high_ms": 1e3 * max(b),
        "mode": best,
        "ratio": ratio,
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "goal": goal,
        "reached": None if goal is None else ratio >= goal,
        "all_modes_ms":
        {mode: 1e3 * statistics.median(rounds.values())
         for mode, rounds in modes.items()},
        "others_cores": max(busy),
    }


def spread(row, side):
    text = f"{row[side + '_ms']:.1f} ({row[side + '_low_ms']:.1f} … {row[side + '_high_ms']:.1f})"
    return text + (f", {1e3 * row['batch'] / row[side + '_ms']:.1f} tokens/s"
                   if row["batch"] else "")


def table(options, library=None):
    records = read_records(options, library)
    names = list(dict.fromkeys(r["weights"] for r in records))
    rows = [
        row for name in names for peer in (LLAMA, *PACKAGES) for case in CASES
        if (row := row_of(records, name, case, peer))
    ]
    if options.json:
        for row in rows:
            print(json.dumps(row))
        return 0 if rows else 1
    print("| weights | | promptcache ms | peer | its ms | its mode | ratio | goal |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        missed = "" if row["reached"] else ", missed"
        goal = "" if row["goal"] is None else f"{row['goal']}x{missed}"
        star = "*" if row["others_cores"] > QUIET else ""
        print(
            f"| {row['weights']} | {row['case']}{star} | {spread(row, 'ours')} "
            f"| {row['peer']} | {spread(row, 'theirs')} | {row['mode']} "
            f"| {row['ratio']:.2f}x ({row['ratio_low']:.2f} … {row['ratio_high']:.2f}) | {goal} |")
    if any(row["others_cores"] > QUIET for row in rows):
        print("\n`*`: other processes used more than a tenth of a core during a measurement of "
              "this row.")
    return 0 if rows else 1


# --------------------------------------------------------------------- main


def keep_long_prompts(options, name, path):
    """llama.cpp takes long for prompts that are set-up only: it writes them to files once."""
    peer = sides(options, name, path, patient=True)[LLAMA]
    for fa in ATTENTION.values():
        for text in (f"decode {fa} 4096 1", f"shared {fa} 1 2048 128 1 1"):
            say(LLAMA, text)
            answer = peer.ask(text)
            if "error" in answer:
                sys.exit(f"peers.py: {LLAMA}: {answer['error']}")
    peer.stop()


def prepare(options):
    os.makedirs(options.work, exist_ok=True)
    if LLAMA in options.peers:
        build_llama(options)
    compile_sides(options)
    for name, path in models(options).items():
        if name == "q8_0":
            convert(options, path)
        if LLAMA in options.peers:
            keep_long_prompts(options, name, path)
    return 0


def missing(options):
    """What the command needs and this machine lacks, each with where it comes from; looked for
    before anything is begun."""
    tools = {"cmake": "package cmake", "cc": "package gcc", "c++": "package g++"
             } if options.command == "prepare" else {}
    lacks = [f"{name} ({source})" for name, source in tools.items() if not shutil.which(name)]
    if options.command in ("prepare", "check", "run") and not importlib.util.find_spec("numpy"):
        lacks.append(f"numpy ({sys.executable} -m pip install numpy, or package python3-numpy)")
    if options.command in ("prepare", "run"):
        lacks += [f"{package} ({sys.executable} -m pip install {package.replace('_', '-')})"
                  for peer, package in PACKAGES.items()
                  if peer in options.peers and not importlib.util.find_spec(package)]
    if (options.command == "prepare" and LLAMA in options.peers and not options.package
            and not importlib.util.find_spec("pip")):
        lacks.append("pip (package python3-pip), or --package FILE")
    if options.command != "table" and not os.path.exists(
            os.path.join(options.build, "libpromptcache.so")):
        lacks.append(
            f"{options.build}/libpromptcache.so (cmake --preset release && "
            "cmake --build --preset release, or --build DIR)"
        )
    return lacks


def main():
    commands = {"prepare": prepare, "check": check, "run": run, "table": table}
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("--work",
                        required=True,
                        help="folder for all that is fetched, built and written")
    parser.add_argument("--build",
                        default=os.path.join(ROOT, "build/release"),
                        help="build folder of promptcache (build/release)")
    parser.add_argument("--peers",
                        default=LLAMA,
                        type=lambda text: text.split(","),
                        help="runtimes beside ours: llama.cpp, openvino, ctranslate2 (llama.cpp)")
    parser.add_argument("--openvino-weights",
                        choices=("asym", "g32"),
                        default="asym",
                        help="asym: as its converter makes 8 bits by default; g32: the numbers of "
                        "the file (asym)")
    parser.add_argument("--package", help="llama-cpp-python source package, if it is there already")
    parser.add_argument("--model",
                        action="append",
                        help="a GGUF file to measure instead of random weights; may be repeated")
    parser.add_argument("--shape",
                        default="llama-1b",
                        help="of random weights: llama-1b, or tiny to try the script (llama-1b)")
    parser.add_argument("--weights",
                        default="q8_0,bf16",
                        help="formats of random weights (q8_0,bf16)")
    parser.add_argument(
        "--compute",
        choices=("default", "f32", "bf16", "int8"),
        default="default",
        help="number format of our side; int8: inputs of quantised matrices in 8 bits, as "
        "llama.cpp has them (default)"
    )
    parser.add_argument("--threads",
                        type=int,
                        default=len(os.sched_getaffinity(0)),
                        help="of both sides (usable cores)")
    parser.add_argument("--rounds", type=int, default=5, help="at most (5)")
    parser.add_argument("--minutes",
                        type=float,
                        default=14,
                        help="no new round is begun that would end later (14)")
    parser.add_argument("--patience",
                        type=float,
                        default=0,
                        help="seconds to wait for other work to pause, before each measurement (0)")
    parser.add_argument("--only",
                        action="append",
                        help="cases that start with this; may be repeated")
    parser.add_argument("--records",
                        help="file that the raw records are appended to (WORK/records-SHAPE.jsonl)")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    options = parser.parse_args()
    if unknown := set(options.peers) - {LLAMA, *PACKAGES}:
        parser.error(f"--peers: no peer {sorted(unknown)[0]}")
    options.work = os.path.abspath(options.work)
    options.records = options.records or os.path.join(options.work,
                                                      f"records-{options.shape}.jsonl")
    for what in (lacks := missing(options)):
        print(f"peers.py: {options.command} needs {what}", file=sys.stderr)
    sys.exit(2 if lacks else commands[options.command](options))


if __name__ == "__main__":
    main()
