"""A run: workers, then minimizing what they found, then a report."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time

from runner import CODE, GOOD, Verdict

HERE = os.path.dirname(os.path.abspath(__file__))


def table_operators():
    """The operators of docs/operators.md."""
    with open(os.path.join(HERE, "..", "..", "docs", "operators.md")) as file:
        return re.findall(r"^\| `([^`]+)`", file.read(), re.M)


def start(kind, options, log, **arguments):
    command = [sys.executable, "-W", "ignore", HERE, kind]
    for key, value in arguments.items():
        command += [f"--{key}", str(value)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", XDG_CACHE_HOME=os.path.join(options.work, "cache"))
    return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def run_workers(options, until):
    """Runs all workers; one that dies (PyTorch itself crashed) starts again behind its program."""
    died = []
    running = {}
    log = open(os.path.join(options.work, "log"), "w")

    def begin(i, first):
        folder = os.path.join(options.work, f"worker_{i}")
        running[i] = start("worker", options, log, work=folder, start=first, step=options.jobs, stop=options.seed + options.programs, until=until,
                           bin=options.bin, devices=options.devices, chunk=options.chunk)

    for i in range(options.jobs):
        begin(i, options.seed + i)
    while running:
        time.sleep(0.5)
        for i, process in list(running.items()):
            if process.poll() is None:
                if time.time() > until + 90:
                    process.kill()
                continue
            del running[i]
            if process.returncode and time.time() < until:
                with open(os.path.join(options.work, f"worker_{i}", "now")) as now:
                    number = int(now.read())
                died.append(number)
                begin(i, number + options.jobs)
    log.close()
    return died


def events(options):
    for i in range(options.jobs):
        path = os.path.join(options.work, f"worker_{i}", "events")
        if os.path.exists(path):
            with open(path) as file:
                for line in file:
                    if line.endswith("\n"):
                        yield i, json.loads(line)


class Tally:
    def __init__(self):
        self.rejected, self.status, self.refusals = collections.Counter(), {}, collections.Counter()
        self.operators, self.families = collections.Counter(), collections.Counter()
        self.details, self.faults, self.programs, self.refused_example = {}, [], 0, {}

    def add(self, worker, event):
        if "rejected" in event:
            self.rejected[event["rejected"]] += 1
            self.details.setdefault(event["rejected"], []).append((event["number"], event["detail"]))
            return
        self.programs += 1
        self.operators.update(set(event["operators"]))
        self.families.update(set(event["families"]))
        codes = set()
        for device, status, output, reason, code in event["verdicts"]:
            self.status.setdefault(device, collections.Counter())[status] += 1
            verdict = Verdict("", device, status, output, reason, code)
            if status == "refused":
                for line in reason.splitlines()[:6]:
                    one = Verdict("", device, status, "", CODE.sub("", line), verdict.code or "?")
                    codes.add((one.code, one.shape().removeprefix("error").strip(": ")[:110]))
            elif status not in GOOD:
                self.faults.append((worker, event["number"], verdict))
        for key in codes:
            self.refusals[key] += 1
            self.refused_example.setdefault(key, event["number"])


def choose(faults):
    """One fault a program (the first device), and few of one shape: those that differ are told apart when minimized."""
    chosen, shapes, seen = [], collections.Counter(), set()
    for worker, number, verdict in faults:
        if number in seen:
            continue
        seen.add(number)
        key = (verdict.status, verdict.shape())
        shapes[key] += 1
        if verdict.status == "differ" or shapes[key] <= 3:
            chosen.append((worker, number, verdict))
    return chosen, shapes


def minimize_all(options, chosen, until):
    log = open(os.path.join(options.work, "log"), "a")
    waiting, running = list(chosen), []
    while (waiting and time.time() < until) or running:
        running = [p for p in running if p.poll() is None]
        if waiting and len(running) < options.jobs and time.time() < until:
            worker, number, verdict = waiting.pop(0)
            path = os.path.join(options.work, f"fault_{number}.json")
            with open(path, "w") as file:
                case = os.path.join(options.work, f"worker_{worker}", "cases", str(number))
                json.dump([number, case, verdict.device, verdict.status, verdict.output, verdict.reason, verdict.given], file)
            running.append(start("minimize", options, log, fault=path, work=os.path.join(options.work, f"minimize_{number}"), bin=options.bin,
                                 out=os.path.join(options.work, "found"), seconds=max(min(options.patience, until - time.time()), 10)))
        else:
            time.sleep(0.2)
    log.close()
    return len(waiting)


def report(options, tally, died, shapes, seconds, left):
    lines = []
    ran = tally.programs
    lines.append(f"programs: {ran} run, {sum(tally.rejected.values())} rejected, {len(died)} crashed PyTorch, {seconds:.0f} s, {ran / max(seconds, 1):.1f} programs/s")
    lines.append("rejected: " + ", ".join(f"{k} {v}" for k, v in tally.rejected.most_common()))
    for device, counts in tally.status.items():
        lines.append(f"{device}: " + ", ".join(f"{k} {v}" for k, v in counts.most_common()))
    table = set(table_operators())
    covered = {o for o in tally.operators if o in table}
    lines.append(f"operators: {len(covered)} of {len(table)} of the table, {len(tally.operators)} in all")
    lines.append("families: " + ", ".join(f"{k} {v}" for k, v in tally.families.most_common()))
    lines.append("faults by shape (before minimizing):")
    lines += [f"  {n}  {status}  {shape}" for (status, shape), n in shapes.most_common(60)]
    lines.append("refused by code and message:")
    lines += [f"  {n}  {code}  {message}  (program {tally.refused_example[code, message]})" for (code, message), n in tally.refusals.most_common(80)]
    found = os.path.join(options.work, "found")
    lines.append(f"findings ({left} faults not minimized for want of time):")
    for name in sorted(os.listdir(found)) if os.path.isdir(found) else []:
        with open(os.path.join(found, name, "note.txt")) as file:
            lines.append("  " + name + ": " + file.readline().strip())
    return lines, sorted(table - covered)


def session(options):
    os.makedirs(options.work, exist_ok=True)
    began = time.time()
    died = run_workers(options, began + options.seconds * (1 - options.share))
    seconds = time.time() - began
    tally = Tally()
    for worker, event in events(options):
        tally.add(worker, event)
    chosen, shapes = choose(tally.faults)
    left = minimize_all(options, chosen, began + options.seconds - 10)
    lines, missing = report(options, tally, died, shapes, seconds, left)
    print("\n".join(lines))
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "summary.txt"), "w") as file:
        file.write("\n".join(lines) + "\n\nnever produced:\n" + "\n".join(missing) + "\n\nrejected:\n" +
                   "\n".join(f"{k} {n} {d}" for k, v in tally.details.items() for n, d in v[:25]) +
                   "\n\ncounts of operators:\n" + "\n".join(f"{n} {k}" for k, n in tally.operators.most_common()) +
                   "\n\nfaults:\n" + "\n".join(f"{n} {v.device} {v.status} {v.output} {v.reason[:300]!r}" for _, n, v in tally.faults) + "\n")
    found = os.path.join(options.work, "found")
    if os.path.isdir(found):
        with tarfile.open(os.path.join(options.out, "findings.tar.gz"), "w:gz") as archive:
            archive.add(found, "findings")
    if not options.keep:
        for i in range(options.jobs):
            shutil.rmtree(os.path.join(options.work, f"worker_{i}"), ignore_errors=True)
    return 1 if tally.faults or died else 0
