"""Random programs against PyTorch: docs/testing.md.

    python3 scripts/differential run --bin build/release/bin [--programs N] [--seed S] [--jobs J] [--seconds T]
                                     [--devices reference,host,host-cuda,cuda] [--out FOLDER]
    python3 scripts/differential one NUMBER --bin BIN [--folder FOLDER]     one program: its text and what every device says
    python3 scripts/differential show NUMBER                                its text
    python3 scripts/differential keep FOLDER... [--family NAME]             findings become cases of tests/cases
    python3 scripts/differential samples --bin BIN --out FOLDER [--operators REGEX]   PyTorch's own samples of its operators (OpInfo)
    python3 scripts/differential tests --source PYTORCH/test/inductor --bin BIN --out FOLDER       what PyTorch's own compiler is tested with
    python3 scripts/differential pack --out FILE.tar.xz FOLDER...     what samples and tests recorded, as one archive
    python3 scripts/differential packed --archive FILE.tar.xz --bin BIN [--devices reference,cuda]     runs it; no PyTorch needed
    python3 scripts/differential errors --bin BIN --out FOLDER [--operators REGEX]    calls that PyTorch refuses (OpInfo's error inputs)
"""
import argparse
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
import time


def parse():
    parser = argparse.ArgumentParser(prog="differential", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--programs", type=int, default=200)
    run.add_argument("--seed", type=int, default=0, help="number of the first program")
    run.add_argument("--jobs", type=int, default=os.cpu_count())
    run.add_argument("--seconds", type=float, default=540, help="the whole run ends within this")
    run.add_argument("--share", type=float, default=0.2, help="of the seconds, kept for minimizing")
    run.add_argument("--patience", type=float, default=60, help="seconds for minimizing one fault")
    run.add_argument("--work", default=None, help="folder for cases while they run")
    run.add_argument("--out", default="differential_out")
    run.add_argument("--keep", action="store_true", help="keep WORK's cases that did not agree")
    one = commands.add_parser("one")
    one.add_argument("number", type=int)
    one.add_argument("--folder")
    show = commands.add_parser("show")
    show.add_argument("number", type=int)
    keep = commands.add_parser("keep")
    keep.add_argument("folders", nargs="+")
    keep.add_argument("--family", default="differential")
    samples = commands.add_parser("samples")
    samples.add_argument("--types", default="f32,bf16,i64,c64")
    samples.add_argument("--forms", default="plain", help="of plain, one, empty, strided, expanded, special, nan, gradient")
    tests = commands.add_parser("tests")
    tests.add_argument("--source", required=True, help="PyTorch's test/inductor")
    tests.add_argument("--files", default="test_torchinductor.py,test_control_flow.py,test_cpu_repro.py,test_unbacked_symints.py")
    errors = commands.add_parser("errors")
    for command in (samples, tests, errors):
        command.add_argument("--out", required=True, help="holds the cases; what is recorded there already is not recorded again")
        command.add_argument("--operators", default="", help="a regular expression of their names")
        command.add_argument("--jobs", type=int, default=os.cpu_count())
        command.add_argument("--record-only", action="store_true")
        command.add_argument("--part", help=argparse.SUPPRESS)
    pack = commands.add_parser("pack")
    pack.add_argument("folders", nargs="+")
    pack.add_argument("--out", required=True)
    pack.add_argument("--most", type=int, default=4096, help="KiB of a case; larger ones are left out")
    packed = commands.add_parser("packed")
    packed.add_argument("--archive", required=True)
    packed.add_argument("--devices", default="reference,cuda")
    packed.add_argument("--operators", default="", help="a regular expression of their folders")
    packed.add_argument("--jobs", type=int, default=os.cpu_count())
    packed.add_argument("--batch", type=int, default=24, help="cases that are compiled together")
    packed.add_argument("--seconds", type=float, default=230, help="the whole run ends within this")
    worker = commands.add_parser("worker")
    for name in ("start", "step", "stop"):
        worker.add_argument("--" + name, type=int)
    worker.add_argument("--until", type=float)
    minimize = commands.add_parser("minimize")
    minimize.add_argument("--fault")
    minimize.add_argument("--out")
    minimize.add_argument("--seconds", type=float)
    for command in (worker, minimize):
        command.add_argument("--work")
    for command in (run, one, worker, minimize, samples, tests, errors, packed):
        command.add_argument("--bin", default="build/release/bin", help="holds tsc, and tsc_differential if it was built")
    for command in (run, one, worker, samples, tests):
        command.add_argument("--devices", default="reference,host,host-cuda")
    for command in (run, worker):
        command.add_argument("--chunk", type=int, default=48, help="programs that are compiled together")
    return parser.parse_args()


def one(options):
    import grammar
    import recording
    from runner import Runner
    program = grammar.generate(options.number)
    print(program.text())
    folder = options.folder or tempfile.mkdtemp()
    try:
        recording.record(program).write(folder)
    except recording.Rejected as error:
        print("rejected:", error)
        return 1
    bad = False
    for verdict in Runner(options.bin, os.path.join(folder, "run"), options.devices.split(",")).run([folder]):
        print(f"{verdict.device}: {verdict.status} {verdict.output} {verdict.reason}")
        bad |= verdict.status not in ("agree", "refused")
    return bad


def minimize(options):
    import recording
    from minimizer import Minimizer
    from runner import Runner, Verdict
    import torch
    torch.set_num_threads(1)
    with open(options.fault) as file:
        number, case, *fault = json.load(file)
    fault = Verdict("", *fault)
    runner = Runner(options.bin, os.path.join(options.work, "run"), [fault.device])
    with open(os.path.join(case, "program.pickle"), "rb") as file:
        program = pickle.load(file)
    maker = Minimizer(runner, fault, os.path.join(options.work, "case"), options.seconds)
    small, verdict = maker.minimize(program)
    note = f"{maker.tries} tries"
    if small is None:
        small, verdict, note = program, fault, "not seen again when run alone"
    case = recording.record(small.copy())
    operators = "-".join(dict.fromkeys(o.split(".")[-2] if o.count(".") > 1 else o.split(".")[-1] for o in case.operators))[:60]
    name = file_name(f"{verdict.status}-{operators}-{verdict.device}")
    folder = os.path.join(options.out, name)
    if os.path.exists(folder):  # another program shows the same
        with open(os.path.join(folder, "note.txt"), "a") as file:
            file.write(f"also program {number}\n")
        return 0
    case.write(folder)
    with open(os.path.join(folder, "note.txt"), "w") as file:
        file.write(f"{verdict.device}: {verdict.status} {verdict.output} {verdict.reason.splitlines()[0][:200] if verdict.reason else ''}\n"
                   f"{verdict.reason}\nprogram {number}, {note}\noperators: {' '.join(case.operators)}\n")
    return 0


def file_name(text):
    return re.sub(r"[^\w.-]", "_", text)


def main():
    options = parse()
    if options.command == "run":
        import session
        options.bin, options.out = os.path.abspath(options.bin), os.path.abspath(options.out)
        made = options.work is None
        options.work = os.path.abspath(options.work or tempfile.mkdtemp(prefix="differential."))
        try:
            return session.session(options)
        finally:
            if made and not options.keep:
                shutil.rmtree(options.work, ignore_errors=True)
    if options.command == "worker":
        import worker
        return worker.work(options)
    if options.command == "minimize":
        return minimize(options)
    if options.command == "samples":
        from samples import samples
        return samples(options)
    if options.command == "tests":
        from compiled_tests import tests
        return tests(options)
    if options.command == "errors":
        from errors import errors
        return errors(options)
    if options.command in ("pack", "packed"):
        import packed
        return packed.pack(options) if options.command == "pack" else packed.packed(options)
    if options.command == "keep":
        import keep
        return keep.keep(options.folders, options.family)
    if options.command == "show":
        import grammar
        print(grammar.generate(options.number).text())
        return 0
    return one(options)


if __name__ == "__main__":
    sys.exit(main())
