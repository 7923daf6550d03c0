"""Files that --snapshot, --trace and --html write, held against the report of the same plan."""
import html.parser
import json
import os
import pickle
import pickletools
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
QUESTIONS = {
    "zero3": ["--model", "Qwen/Qwen3-0.6B", "--gpus", "4", "--gpu", "A100-SXM-80GB", "--zero", "3", "--offload", "none"],
    "zero2+offload-optimizer": ["--model", "Qwen/Qwen3-0.6B", "--gpus", "4", "--mem", "24", "--zero", "2", "--offload", "optimizer",
                                "--grad-accum", "30"],
    "tp2+zero1": ["--model", "Qwen/Qwen3-1.7B", "--gpus", "4", "--gpu", "H100-SXM-80GB", "--zero", "1", "--tp", "2", "--grad-accum", "3"],
    "fsdp": ["--model", "Qwen/Qwen3-0.6B", "--gpus", "2", "--mem", "24", "--framework", "fsdp", "--offload", "none"],
    "nothing": ["--model", "70B", "--gpus", "2", "--gpu", "RTX-3090-24GB", "--method", "qlora", "--seq", "512"],
}
# Opcodes that the unpickler of pytorch.org/memory_viz knows. Source: PyTorch torch/utils/viz/MemoryViz.js.
KNOWN_OPCODES = {
    "PROTO", "FRAME", "APPEND", "APPENDS", "LIST", "TUPLE", "NEWTRUE", "NEWFALSE", "NONE", "BINGET", "BININT", "BININT1", "BININT2",
    "EMPTY_DICT", "EMPTY_LIST", "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "SETITEMS", "SETITEM", "DICT",
    "SHORT_BINUNICODE", "BINUNICODE", "STOP", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "BINFLOAT",
}


class Exports:
    """What one question writes, made once."""

    made = {}

    def __init__(self, name):
        with tempfile.TemporaryDirectory() as folder:
            files = {kind: os.path.join(folder, kind) for kind in ("snapshot", "trace", "html")}
            words = [PROGRAM, *QUESTIONS[name], "--json"]
            for kind, file in files.items():
                words += [f"--{kind}", file]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 1):
                raise AssertionError(done.stderr)
            self.report = json.loads(done.stdout)
            self.messages = done.stderr
            with open(files["snapshot"], "rb") as file:
                self.pickle = file.read()
            with open(files["trace"], encoding="utf-8") as file:
                self.trace = json.load(file)
            with open(files["html"], encoding="utf-8") as file:
                self.html = file.read()
        self.plan = self.report["plans"][0]
        self.snapshot = pickle.loads(self.pickle)

    @classmethod
    def of(cls, name):
        if name not in cls.made:
            cls.made[name] = cls(name)
        return cls.made[name]


def for_each(test):
    def run(self):
        for name in QUESTIONS:
            with self.subTest(name):
                test(self, Exports.of(name))
    return run


class Snapshot(unittest.TestCase):
    @for_each
    def test_peak_is_the_plans(self, made):
        memory, segments, live = made.plan["memory"], {}, {}
        reserved = most_reserved = requested = most_requested = 0
        steps, step = made.snapshot["zplan"]["steps"], 0
        last = f"optimizer step {steps} of {steps}"
        for entry in made.snapshot["device_traces"][0]:
            action, address, size = entry["action"], entry["addr"], entry["size"]
            if action in ("segment_alloc", "segment_map"):
                segments[address] = size
                reserved += size
            elif action in ("segment_free", "segment_unmap"):
                reserved -= size
            elif action == "alloc":
                self.assertNotIn(address, live)
                live[address] = size
                requested += size
                if entry["frames"][-1]["name"] == last:
                    step = steps
            elif action == "free_completed":
                self.assertEqual(live.pop(address), size)
                requested -= size
            most_reserved = max(most_reserved, reserved)
            if step == steps:
                most_requested = max(most_requested, requested)
        self.assertEqual(most_reserved, memory["peak_reserved"])
        self.assertEqual(made.snapshot["zplan"]["peak_requested"], most_requested)
        self.assertEqual(made.snapshot["zplan"]["peak_allocated"], memory["peak_allocated"])
        self.assertLessEqual(most_requested, memory["peak_allocated"])
        self.assertGreater(most_requested, 0.995 * memory["peak_allocated"])  # the rest is rounding
        held = {block["address"]: block["requested_size"] for segment in made.snapshot["segments"] for block in segment["blocks"]
                if block["state"] == "active_allocated"}
        self.assertEqual(held, live)
        self.assertEqual(sum(segment["total_size"] for segment in made.snapshot["segments"]), reserved)

    @for_each
    def test_accounting_of_memory_viz(self, made):
        """What torch.cuda._memory_viz.segsum asserts, and the keys that it and trace() read."""
        for segment in made.snapshot["segments"]:
            allocated = sum(block["requested_size"] for block in segment["blocks"] if block["state"] == "active_allocated")
            inside = sum(block["size"] - block["requested_size"] for block in segment["blocks"] if block["state"] == "active_allocated")
            outside = sum(block["size"] for block in segment["blocks"] if block["state"] == "inactive")
            self.assertEqual(allocated + inside + outside, segment["total_size"])
            self.assertEqual(segment["active_size"], allocated + inside)
            address = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], address)
                self.assertGreaterEqual(block["size"], block["requested_size"])
                address += block["size"]
        previous = None
        for entry in made.snapshot["device_traces"][0]:
            self.assertLessEqual({"action", "addr", "size", "stream", "time_us", "frames"}, entry.keys())
            if entry["action"] == "free_completed":
                self.assertEqual((previous["action"], previous["addr"]), ("free_requested", entry["addr"]))
            previous = entry

    @for_each
    def test_frames_name_module_phase_and_cause(self, made):
        phases, modules = set(), set()
        for entry in made.snapshot["device_traces"][0]:
            if entry["action"] != "alloc":
                continue
            cause, when, step = entry["frames"]
            self.assertTrue(cause["name"] and when["name"] and step["name"])
            phases.add(when["filename"])
            modules.add(cause["filename"])
            self.assertEqual([frame["line"] for frame in entry["frames"]], [0, 0, 0])
        self.assertLessEqual({"initialisation", "forward", "loss", "loss_backward", "backward"}, phases)
        self.assertTrue(any(re.fullmatch(r"model\.layers\.\d+\.mlp\.down_proj", each) for each in modules), sorted(modules)[:9])

    @for_each
    def test_opcodes_are_known(self, made):
        self.assertLessEqual({opcode.name for opcode, _, _ in pickletools.genops(made.pickle)}, KNOWN_OPCODES)

    @for_each
    def test_torch_opens_it(self, made):
        try:
            from torch.cuda import _memory_viz
        except ImportError:
            return  # test_accounting_of_memory_viz stands for it
        self.assertIn("total_reserved", _memory_viz.segsum(made.snapshot))
        self.assertIn("entries", _memory_viz.trace(made.snapshot))
        self.assertIn("stream_0", _memory_viz.segments(made.snapshot, format_flamegraph=str))
        self.assertIn("snapshot.pickle", _memory_viz.trace_plot(made.snapshot))


class Trace(unittest.TestCase):
    @for_each
    def test_lanes_do_not_overlap(self, made):
        lanes = {}
        for event in made.trace["traceEvents"]:
            if event["ph"] == "X":
                self.assertGreater(event["dur"], 0)
                lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
        self.assertGreaterEqual(len(lanes), 3)
        for lane in lanes.values():
            reached = 0
            for begin, duration in sorted(lane):
                self.assertGreaterEqual(begin, reached - 1e-3)
                reached = begin + duration

    @for_each
    def test_step_is_the_plans(self, made):
        step = made.plan["time"]["step"] * 1e6
        complete = [event for event in made.trace["traceEvents"] if event["ph"] == "X"]
        annotation = [event for event in complete if event["cat"] == "user_annotation"]
        self.assertEqual([event["name"] for event in annotation], ["ProfilerStep#0"])
        self.assertAlmostEqual(annotation[0]["dur"], step, delta=1e-6 * step)
        ends = max(event["ts"] + event["dur"] for event in complete if event["cat"] != "user_annotation")
        self.assertAlmostEqual(ends, step, delta=1e-6 * step)

    @for_each
    def test_has_the_form_of_kinetos(self, made):
        info = made.trace["distributedInfo"]
        self.assertEqual(info["world_size"], made.report["cluster"]["gpus"])
        self.assertEqual(info["pg_count"], len(info["pg_config"]))
        self.assertTrue(made.trace["zplan"]["predicted"])
        threads = {(event["pid"], event["tid"]) for event in made.trace["traceEvents"] if event["name"] == "thread_name"}
        collectives = set()
        for event in made.trace["traceEvents"]:
            if event["ph"] != "X":
                continue
            self.assertIn((event["pid"], event["tid"]), threads)
            self.assertIn(event["cat"], {"kernel", "gpu_memcpy", "cpu_op", "user_annotation"})
            if event["cat"] in ("kernel", "gpu_memcpy"):
                self.assertEqual((event["args"]["device"], event["args"]["stream"]), (event["pid"], event["tid"]))
            if event["name"].startswith("nccl"):
                collectives.add(event["args"]["Collective name"])
                self.assertGreater(event["args"]["Group size"], 1)
                self.assertGreater(event["args"]["Out msg nelems"], 0)
        calls = made.plan["communication"]["collectives"]
        self.assertEqual(bool(collectives), bool(calls))

    def test_copies_of_offload(self):
        events = Exports.of("zero2+offload-optimizer").trace["traceEvents"]
        copies = {event["name"].split()[1] for event in events if event["ph"] == "X" and event["cat"] == "gpu_memcpy"}
        self.assertIn("HtoD", copies)


class Outline(html.parser.HTMLParser):
    """Elements of a page that a reader or a browser would stumble over."""

    VOID = {"meta", "br", "img", "link", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.links, self.scripts, self.faults, self.ids = [], [], [], 0, [], []
        self.captions = self.tables = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in self.VOID and not (tag in ("rect", "line", "circle", "path") and self.get_starttag_text().endswith("/>")):
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.scripts += tag in ("script", "iframe", "object", "embed")
        self.links += [given[key] for key in ("src", "href", "action", "data") if key in given]
        self.ids += [given["id"]] if "id" in given else []
        self.tables += tag == "table"
        self.captions += tag == "caption"
        if tag == "html" and not given.get("lang"):
            self.faults.append("no language")
        if tag == "th" and "scope" not in given:
            self.faults.append("a heading cell without scope")
        if tag == "svg" and given.get("aria-hidden") != "true" and (given.get("role") != "img" or not given.get("aria-label")):
            self.faults.append("a picture without words")
        if given.get("role") == "region" and not given.get("aria-label"):
            self.faults.append("a region without a name")
        if any(key.startswith("on") for key in given):
            self.faults.append("a handler")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> without its begin")


def contrast(one, other):
    def luminance(color):
        digits = color.lstrip("#")
        digits = "".join(each * 2 for each in digits) if len(digits) == 3 else digits
        parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
        parts = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class Page(unittest.TestCase):
    @for_each
    def test_asks_nothing_of_the_network(self, made):
        outline = Outline(made.html)
        self.assertEqual((outline.scripts, outline.links), (0, []))
        self.assertIsNone(re.search(r"url\(|@import|https?://", made.html))
        self.assertIn("default-src 'none'", made.html)

    @for_each
    def test_can_be_read_by_everyone(self, made):
        outline = Outline(made.html)
        self.assertEqual(outline.faults, [])
        self.assertEqual(outline.open, [])
        self.assertEqual(outline.headings[0], 1)
        self.assertEqual(outline.headings.count(1), 1)
        for before, after in zip(outline.headings, outline.headings[1:]):
            self.assertLessEqual(after, before + 1)
        self.assertEqual(outline.tables, outline.captions)
        self.assertEqual(len(outline.ids), len(set(outline.ids)))

    @for_each
    def test_says_what_the_report_says(self, made):
        text = re.sub(r"<[^>]*>", "", made.html)
        required = made.plan["memory"]["required"] / 2**30
        heading = re.sub(r"<[^>]*>", "", re.search(r"<h1>(.*?)</h1>", made.html, re.S)[1])
        self.assertIn("Fits with" if made.report["recommended"] else "Does not fit", heading)
        self.assertIn(made.plan["id"], heading)
        self.assertIn(f"{required:#.3g}", heading)
        for plan in made.report["plans"]:
            self.assertIn(plan["id"], text)
        for collective in made.plan["communication"]["collectives"]:
            self.assertIn(collective["purpose"], text)
        if made.report["ds_config"]:
            self.assertIn("zero_optimization", text)
        if made.report["alternative"]:
            self.assertIn(made.report["alternative"]["change"], text)

    def test_colours_can_be_told_from_the_ground(self):
        themes = re.findall(r":root\{(.*?)\}", Exports.of("zero3").html, re.S)
        self.assertEqual(len(themes), 3)  # light, dark, print
        for theme in themes:
            colors = dict(re.findall(r"--([a-z_]+):(#[0-9a-f]+)", theme))
            for name, color in colors.items():
                if name in ("ground", "panel", "line"):
                    continue
                least = 4.5 if name in ("ink", "quiet", "good", "bad", "link") else 3
                for ground in ("ground", "panel") if least > 3 else ("ground",):
                    self.assertGreaterEqual(contrast(color, colors[ground]), least, f"{name} on {ground}")


class Refusals(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([PROGRAM, *QUESTIONS["zero3"], *words], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr

    def test_standard_output_is_no_file(self):
        for option in ("--snapshot", "--trace", "--html"):
            self.assertEqual(self.refused(option, "-"), f"zplan: {option}: -; accepted: a file\n")

    def test_a_folder_that_is_not_there(self):
        for option in ("--snapshot", "--trace", "--html"):
            said = self.refused(option, "/nowhere/at/all")
            self.assertTrue(said.startswith(f"zplan: {option}: "))
            self.assertTrue(said.endswith("accepted: a file in a folder that can be written\n"))


if __name__ == "__main__":
    unittest.main()
