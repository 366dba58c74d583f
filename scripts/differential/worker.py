"""One process: makes programs START, START + STEP, ..., records them, runs them, keeps those that do not agree.

It writes one JSON line an event into WORK/events: {"number", "rejected"} or {"number", "operators", "families", "verdicts"}; the
session starts it again behind the program that killed it."""
import json
import os
import pickle
import shutil
import time
import traceback

import torch

import grammar
import recording
from runner import GOOD, Runner

CHUNK = 24


def work(options):
    torch.set_num_threads(1)
    folder = options.work
    os.makedirs(folder, exist_ok=True)
    runner = Runner(options.bin, os.path.join(folder, "run"), options.devices.split(","))
    number = options.start
    pending = []
    with open(os.path.join(folder, "events"), "a") as events:
        def say(**event):
            events.write(json.dumps(event) + "\n")
            events.flush()

        while True:
            over = time.time() > options.until or number >= options.stop
            if pending and (over or len(pending) >= options.chunk):
                run_chunk(runner, pending, say)
                pending = []
            if over:
                return
            with open(os.path.join(folder, "now"), "w") as now:
                now.write(str(number))
            try:
                case = recording.record(grammar.generate(number))
                case.write(os.path.join(folder, "cases", str(number)))
                pending.append((number, os.path.join(folder, "cases", str(number)), case.operators, [s.family for s in case.program.statements]))
            except recording.Rejected as error:
                say(number=number, rejected=error.reason, detail=str(error)[:300])
            except Exception as error:  # a fault of the generator itself
                say(number=number, rejected="generator", detail=f"{type(error).__name__}: {error}"[:200] + " " + traceback.format_exc().splitlines()[-3].strip())
            number += options.step


def run_chunk(runner, pending, say):
    verdicts = {}
    for v in runner.run([folder for _, folder, _, _ in pending]):
        verdicts.setdefault(os.path.basename(v.case.rstrip("/")), []).append(v)
    for number, folder, operators, families in pending:
        own = verdicts.get(str(number), [])
        if any(v.status == "differ" for v in own) and says_nothing(folder):
            for v in own:
                v.status = "fragile" if v.status == "differ" else v.status
        say(number=number, operators=operators, families=families, time=time.time(),
            verdicts=[[v.device, v.status, v.output, v.reason, v.given] for v in own])
        if all(v.status in GOOD for v in own):
            shutil.rmtree(folder, ignore_errors=True)


def says_nothing(folder):
    with open(os.path.join(folder, "program.pickle"), "rb") as file:
        program = pickle.load(file)
    try:
        return recording.is_fragile(program)
    except Exception:  # moved inputs may be refused
        return False
