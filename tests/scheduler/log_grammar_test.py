"""scripts/verify_log_grammar takes the seeds' logs and what tsc prints of sample graphs, and refuses logs that break one rule.

    log_grammar_test.py TSC ROOT UNPACKED      UNPACKED: where graphs/zoo is unpacked
"""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import unittest

TSC, ROOT, UNPACKED = sys.argv[1:4]
SCRIPT = os.path.join(ROOT, "scripts", "verify_log_grammar")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("verify_log_grammar", SCRIPT)
spec = importlib.util.spec_from_loader("verify_log_grammar", loader)
grammar = importlib.util.module_from_spec(spec)
loader.exec_module(grammar)

SMALL = ["seed_000.json", "seed_001.json", "seed_002.json", "seed_004.json", "concatenation.json", "adam_step.json"] + [
    f"anchors/{name}/model.json" for name in ("seed_sum", "seed_mm_chain", "seed_add_sum", "softmax", "layernorm_gelu", "mlp_gelu")]
# counters and mutated_inputs overwrite inputs, qwen2 concatenates (masked blocks), batch_norm_training splits reductions
MODELS = ["gpt2_small/default.pt2"] + [f"zoo/{name}/default.pt2" for name in
                                       ("counters", "mutated_inputs", "qwen2", "batch_norm_training", "swin")]


def golden(name):
    with open(os.path.join(ROOT, "tests", "golden", name, "schedule.txt")) as file:
        return file.read()


def dump(graph, *flags):
    path = os.path.join(UNPACKED if graph.startswith("zoo/") else ROOT, "graphs", graph)
    command = [TSC, "dump-schedule", path, "--no-code", "--arch=sm_90", *flags]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Accepts(unittest.TestCase):
    def test_the_seeds(self):
        for name, count in (("seed_000", 1), ("seed_001", 50), ("seed_002", 4), ("seed_004", 1)):
            reader = grammar.verify(golden(name))
            self.assertEqual(sum(reader.counts.values()), count)
            self.assertFalse(reader.newer)

    def test_what_tsc_prints(self):
        for graph in SMALL + MODELS:
            for policy in ("default", "inductor-2.5"):
                for dialect in ("2.5", "2.11"):
                    for stage in ("pre-fusion", "post-fusion"):
                        with self.subTest(graph=graph, policy=policy, dialect=dialect, stage=stage):
                            text = dump(graph, f"--policy={policy}", f"--dialect={dialect}", f"--stage={stage}")
                            reader = grammar.verify(text)
                            self.assertEqual(reader.newer, dialect == "2.11")
                            if "SchedulerNode(ComputedBuffer)" in text and reader.newer:
                                self.assertEqual(reader.unmerged, stage == "pre-fusion")

    def test_kernels_behind_their_nodes(self):
        path = os.path.join(ROOT, "graphs", "anchors", "softmax", "model.json")
        text = subprocess.run([TSC, "dump-schedule", path, "--arch=sm_90"], capture_output=True, text=True).stdout
        self.assertIn("CUDA code:", text)
        grammar.verify(text)


class Refuses(unittest.TestCase):
    """One change a case. (what is replaced, by what, the rule that names it)"""

    CASES_002 = [
        ("\n\n\nop1:", "\n\nop1:", "'op1: "),
        ("op0.writes = [MemoryDep('buf0', c0, {c0: 524288}, None)]\n", "", "does not begin with 'op0.writes = '"),
        ("{c0: 524288}, None)]\nop0.unmet", "{c0: 524288})]\nop0.unmet", "name, index, ranges, mode"),
        ("    [   MemoryDep('arg1_1'", "    [MemoryDep('arg1_1'", "does not begin with '    [   '"),
        ("    [   MemoryDep('arg1_1', c0, {c0: 2048}, None),\n        MemoryDep('arg2_1', c0, {c0: 524288}, None)]",
         "    [   MemoryDep('arg2_1', c0, {c0: 524288}, None),\n        MemoryDep('arg1_1', c0, {c0: 2048}, None)]", "sorted by text"),
        ("op1.met_dependencies = [StarDep(name='arg0_1', mode=None)]", "op1.met_dependencies = \n    [   StarDep(name='arg0_1', mode=None)]",
         "is not wrapped"),
        ("c1, {c0: 128, c1: 256}, None", "c1, {c1: 256}, None", "loops numbered from 0"),
        ("'arg3_1', c0, {c0: 128}", "'arg3_1', c0, {c0: 128, c1: 256}", "trailing unused loops"),
        ("'arg3_1', c0, {c0: 128}", "'arg3_1', c5, {c0: 128}", "the index's loops have ranges"),
        ("size=[2048, 256], stride=[256, 1])", "size=[2048, 256], stride=[256])", "as many strides as sizes"),
        ("FixedLayout('cuda', torch.bfloat16", "FixedLayout('cuda', bfloat16", "a layout"),
        ("        NodeUser(node=OUTPUT", "        NodeUser(node=Output", "is not "),
        ("    buf1: ExternKernelOut\n", "    buf9: ExternKernelOut\n", "does not begin with|writes its outputs"),
        ("op1.node.kernel = extern_kernels.mm", "op1.node.kernel =", "is not "),
        ("op0.sizes = ([2048, 256], [])", "op0.sizes = ((2048, 256), ())", "sizes as lists"),
        ("op0.sizes = ([2048, 256], [])", "op0.sizes = ([256, 2048], [])", "loops are those of sizes"),
        ("arg2_1_layout = ", "arg3_1_layout = ", "a layout line for each read"),
        ("    index1 = z0\n", "", "an index that is listed"),
        ("    index0 = 256*z0 + z1\n    index1 = z0\n", "    index0 = z0\n    index1 = z0\n", "each index is listed once"),
        ("get_index_1 = self.get_index('index1')", "get_index_1 = self.get_index('index0')", "numbered by first use"),
        ("load_1 = ops.load", "load_2 = ops.load", "is not how"),
        ("mul = ops.mul(load, load_1)", "mul = ops.mul(load, load_7)", "is defined before it is used"),
        ("        return store\n", "        return None\n", "only a reduction returns None"),
        ("        return store\n", "        return mul\n", "a body returns its last store"),
    ]

    def refuse(self, text, old, new, rule):
        self.assertIn(old, text)
        with self.assertRaisesRegex(grammar.GrammarError, rule if "|" in rule else grammar.re.escape(rule)):
            grammar.verify(text.replace(old, new, 1))

    def test_a_changed_seed(self):
        for old, new, rule in self.CASES_002:
            with self.subTest(old=old, new=new):
                self.refuse(golden("seed_002"), old, new, rule)

    def test_a_changed_newer_log(self):
        before, after = (dump("anchors/softmax/model.json", "--dialect=2.11", f"--stage={s}-fusion") for s in ("pre", "post"))
        for text, old, new, rule in [
                (after, "{d0: 32768}", "{c0: 32768}", "loops named d"),
                (after, "'buf0', d0, {d0: 32768})", "'buf0', d0, {d0: 32768}, None)", "name, index, ranges: "),
                (after, ".snodes[1] =", ".snodes[2] =", "is not "),
                (after, "FusedSchedulerNode(SchedulerNode,", "FusedSchedulerNode(", "as many classes as members"),
                (after, "((32768,), (4096,))", "((32768), (4096,))", "a tuple of one ends with a comma"),
                (after, "p0: 32768", "z0: 32768", "loops are those of sizes"),
                (after, "FixedLayout('cuda:0'", "FixedLayout('cuda'", "a layout"),
                (before, "4096*d0 + d1, {d0: 32768, d1: 4096}", "c0, {c0: 134217728}", "loops named d"),
                (before, "([32768], [4096])", "((32768,), (4096,))", "sizes as lists")]:
            with self.subTest(old=old, new=new):
                self.refuse(text, old, new, rule)

    def test_half_a_log(self):
        text = golden("seed_004")
        with self.assertRaises(grammar.GrammarError):
            grammar.verify(text[:-1])
        for line in range(1, text.count("\n") - 2):  # no line may be missing
            lines = text.split("\n")
            del lines[line]
            with self.subTest(line=line), self.assertRaises(grammar.GrammarError):
                grammar.verify("\n".join(lines))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
