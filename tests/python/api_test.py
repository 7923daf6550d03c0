"""The functions against the command line: the same questions, the same answers, the same sentences.

usage: ZPLAN_PROGRAM=zplan PYTHONPATH=FOLDER_OF_PACKAGE python3 api_test.py
"""
import ast
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import re
import unittest

import zplan
from support import TESTS, command_line, differences, document_of, words_of
from zplan import _engine, results

MODELS = ["8B", "0.5B", "70B", "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1", "openai-community/gpt2",
          "Qwen/Qwen3-30B-A3B", "google/gemma-2-9b", "no-such-model"]
QUESTIONS = int(os.environ.get("ZPLAN_QUESTIONS", "40"))  # each costs up to two seconds, those without advice a tenth
GPUS = ["H100-SXM-80GB", "A100-SXM-40GB", "RTX-4090-24GB", "T4-16GB", "H900"]
CHOICES = {
    "nodes": [1, 2], "zero": [[0], [2, 3], 3], "tp": [1, [1, 2], 4], "offload": ["none", ["none", "all"], "optimizer"],
    "method": ["full", "lora", "qlora"], "lora_rank": [4, 64], "precision": ["bf16", "fp16", "fp32"],
    "optimizer": ["adamw", "adamw8bit", "sgd", "lion", "adamw_torch_fused", "adam-like"], "seq": [128, 2048, 8192, 0],
    "micro_batch": [1, 4, "max"], "grad_accum": [1, 3], "global_batch": [16, 30], "checkpointing": ["none", "selective", "full"],
    "attention": ["flash", "sdpa", "eager"], "fused_loss": [True], "no_master_weights": [True], "headroom": [0, 7.5, 20],
    "framework": ["deepspeed", "fsdp", "torch"], "buckets": ["default", "hf-auto"], "expandable_segments": [True], "explain": [True],
    "host_mem": [64, 1000], "units": ["GB"],
}


def random_question(source):
    asked = {"model": source.choice(MODELS[:-1] if source.random() < 0.95 else MODELS)}
    if source.random() < 0.9:
        asked["gpus"] = source.choice([1, 2, 5, 8, 16])
    asked.update({"gpu": source.choice(GPUS[:-1] if source.random() < 0.95 else GPUS)} if source.random() < 0.5 else
                 {"mem": source.choice([16, 24, 44, 79.6])})
    if source.random() < 0.75:
        asked["no_advice"] = True
    for name in source.sample(sorted(CHOICES), source.randint(0, 4)):
        asked[name] = source.choice(CHOICES[name])
    return asked


def asked_of_package(asked):
    asked = dict(asked)
    try:
        return zplan.plan(asked.pop("model"), **asked), ""
    except ValueError as error:
        return None, str(error)


def without_commands(text):
    """A report without the commands that it suggests, which repeat how options were typed."""
    return re.sub(r'"command": "(?:[^"\\]|\\.)*"', '"command": ""', text)


def beside_commands(found):
    return [each for each in found if ".command:" not in each]


class SameAnswers(unittest.TestCase):
    def compare(self, asked):
        status, out, err = command_line("plan", *words_of(asked), "--json")
        answer, sentence = asked_of_package(asked)
        if status == 2:
            self.assertEqual(f"zplan: {sentence}\n", err, asked)
            return "refused"
        self.assertEqual(without_commands(answer.json), without_commands(out), asked)
        self.assertEqual(beside_commands(differences(document_of(out), answer)), [], asked)
        self.assertEqual(answer.ok, status == 0, asked)
        return "answered"

    def test_random_questions(self):
        source = random.Random(19)
        outcomes = [self.compare(random_question(source)) for _ in range(QUESTIONS)]
        self.assertGreater(outcomes.count("answered"), QUESTIONS / 2)
        self.assertGreater(outcomes.count("refused"), QUESTIONS / 10)

    def same(self, answer, *words):
        status, out, _ = command_line(*words)
        self.assertEqual(beside_commands(differences(document_of(out), answer)), [])
        self.assertEqual(answer.ok, status == 0)

    def test_compare(self):
        self.same(zplan.compare("8B", "zero3", "tp2+zero1", gpus=8, mem=44, baseline="zero2"),
                  "compare", "--model", "8B", "--gpus", "8", "--mem", "44", "--baseline", "zero2", "zero3", "tp2+zero1", "--json")

    def test_compare_hardware(self):
        answer = zplan.compare_hardware("8B", "h100", "a100", gpus=8, zero=3, offload="none", tp=1, price=[3, 1.5], order="cheapest")
        self.same(answer, "hardware", "compare", "--model", "8B", "--gpus", "8", "--zero", "3", "--offload", "none", "--tp", "1", "--price", "3,1.5",
                  "--order", "cheapest", "--json", "--", "h100", "a100")
        costs = [each.cost_per_million_tokens for each in answer.hardware]
        self.assertEqual(costs, sorted(costs))

    def test_search(self):
        self.same(zplan.search("0.5B", gpus=2, mem=24, global_batch=8),
                  "search", "--model", "0.5B", "--gpus", "2", "--mem", "24", "--global-batch", "8", "--json")

    def test_fit(self):
        self.same(zplan.fit("8B", gpus=5, mem=44, solve="sequence"),
                  "fit", "--model", "8B", "--gpus", "5", "--mem", "44", "--solve", "sequence", "--json")
        self.same(zplan.fit(gpus=2, mem=24, solve="model", zero=3), "fit", "--gpus", "2", "--mem", "24", "--solve", "model", "--zero", "3", "--json")

    def test_fit_of_a_message(self):
        message = ("CUDA out of memory. Tried to allocate 192.00 MiB. GPU 0 has a total capacity of 44.00 GiB of which 100.00 MiB is free. "
                   "Of the allocated memory 42.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.")
        self.same(zplan.fit("8B", gpus=5, mem=44, zero=2, oom=message),
                  "fit", "--model", "8B", "--gpus", "5", "--mem", "44", "--zero", "2", "--oom", message, "--json")

    def test_explain(self):
        answer = zplan.explain("8B", gpus=5, mem=44, zero=3)
        self.same(answer, "--model", "8B", "--gpus", "5", "--mem", "44", "--zero", "3", "--explain", "--json")
        peak = next(each for each in answer.best.explain.memory if each.name == "peak")
        self.assertEqual(peak.value, answer.best.memory.peak)

    def test_lint(self):
        config = {"zero_optimization": {"stage": 5}, "train_batch_sise": 3}
        answer = zplan.lint(config)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ds_config.json")
            with open(path, "w") as file:
                json.dump(config, file)
            _, out, _ = command_line("lint", path, "--json")
        self.assertEqual(differences(document_of(out.replace(path, "ds_config.json")), answer), [])
        self.assertFalse(answer.ok)

    def test_check(self):
        path = os.path.join(TESTS, "reference", "capacity")
        self.same(zplan.check(path, worst=3), "check", path, "--worst", "3", "--json")

    def test_catalogues(self):
        self.same(zplan.models("qwen3"), "models", "search", "qwen3", "--json")
        self.same(zplan.model("0.5B"), "models", "show", "0.5B", "--json")
        self.same(zplan.hardware(), "hardware", "--json")


class Models(unittest.TestCase):
    CONFIG = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
              "vocab_size": 1000, "_name_or_path": "some/little-llama"}

    def test_a_dict_a_file_a_folder_and_an_object_are_one(self):
        class Config:
            _attn_implementation = "eager"

            def to_dict(self):
                return dict(Models.CONFIG)

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as file:
                json.dump(self.CONFIG, file)
            plans = [zplan.plan(model, gpus=2, mem=24, attention="eager").plans
                     for model in (self.CONFIG, path, folder, Config())]
            self.assertEqual(zplan.plan(Config(), mem=24).training.attention, "eager")
        self.assertEqual(zplan.plan(self.CONFIG, mem=24).model.name, "some/little-llama")
        for each in plans[1:]:
            self.assertEqual(each, plans[0])

    def test_no_temporary_folder_is_named(self):
        text = zplan.plan(self.CONFIG, mem=24).json
        self.assertNotIn(tempfile.gettempdir() + "/zplan-", text)
        with self.assertRaisesRegex(ValueError, "^little-llama/config.json#/hidden_size: "):
            zplan.plan({**self.CONFIG, "hidden_size": "wide"}, mem=24)

    def test_temporary_files_go(self):
        before = set(os.listdir(tempfile.gettempdir()))
        zplan.plan(self.CONFIG, mem=24)
        self.assertEqual([each for each in set(os.listdir(tempfile.gettempdir())) - before if each.startswith("zplan-")], [])

    def test_a_ds_config_is_a_dict_or_a_file(self):
        config = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}, "steps_per_print": float("inf")}
        self.assertEqual([plan.strategy.zero_stage for plan in zplan.plan("0.5B", mem=24, ds_config=config).plans], [2])
        self.assertEqual(zplan.compare("0.5B", config, "zero3", mem=24).plans[0].strategy.zero_stage in (2, 3), True)
        with self.assertRaisesRegex(ValueError, "ds_config.json#/zero_optimization/stage"):
            zplan.plan("0.5B", mem=24, ds_config={"zero_optimization": {"stage": 7}})


class TrainingArguments:
    """The fields of transformers' that count."""

    per_device_train_batch_size, gradient_accumulation_steps, world_size = 4, 2, 8
    bf16, fp16, gradient_checkpointing, optim, deepspeed, fsdp = True, False, True, "adamw_torch_fused", None, None


class Arguments(unittest.TestCase):
    def test_they_are_options(self):
        report = zplan.plan("8B", training=TrainingArguments(), mem=44)
        strategy = report.plans[0].strategy
        self.assertEqual((strategy.micro_batch_size, strategy.gradient_accumulation_steps, report.cluster.gpus), (4, 2, 8))
        self.assertEqual((report.training.precision, strategy.activation_checkpointing), ("bf16", "full"))

    def test_options_win(self):
        report = zplan.plan("8B", training=TrainingArguments(), gpus=2, micro_batch=1, mem=44)
        self.assertEqual((report.cluster.gpus, report.plans[0].strategy.micro_batch_size), (2, 1))

    def test_autos_of_the_config_are_resolved(self):
        arguments = TrainingArguments()
        arguments.deepspeed = {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}
        report = zplan.plan("8B", training=arguments, mem=80)
        self.assertEqual([(plan.strategy.zero_stage, plan.strategy.micro_batch_size) for plan in report.plans], [(3, 4)])


class Options(unittest.TestCase):
    """The stub has an option's name where a command takes it."""

    def classes(self):
        with open(os.path.join(os.path.dirname(TESTS), "python", "zplan", "options.pyi")) as file:
            return {node.name: node for node in ast.parse(file.read()).body if isinstance(node, ast.ClassDef)}

    def names(self, classes, name):
        node = classes[name]
        own = {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
        return own.union(*(self.names(classes, base.id) for base in node.bases if base.id != "TypedDict"))

    def test_no_command_has_a_foreign_one(self):
        classes, seen = self.classes(), 0
        for command, name in (("plan", "PlanOptions"), ("search", "SearchOptions"), ("compare", "CompareOptions"), ("fit", "FitOptions"),
                              ("lint", "LintOptions"), ("check", "CheckOptions")):
            for key in self.names(classes, name):
                option = "--" + key.replace("_", "-")
                _, _, messages = _engine.ask([command, option + "=?"])
                self.assertNotRegex(messages, "not an option of|no such option", f"{command} {option}")
                seen += 1
        self.assertGreater(seen, 400)

    def test_a_program_that_runs_may_name_them(self):
        from zplan.options import Path, PlanOptions

        self.assertIsNotNone((Path, PlanOptions))
        with self.assertRaises(ImportError):
            from zplan.options import Nothing  # noqa: F401


class Errors(unittest.TestCase):
    def test_the_sentence_is_the_command_lines(self):
        for asked in ({"gpus": 0}, {"gpuz": 5}, {"zero": [4]}, {"mem": "much"}, {"gpu": "H900"}, {"lora_rank": 4}, {"json": True, "csv": True}):
            _, _, err = command_line("plan", "--model", "8B", *words_of(asked), *([] if "json" in asked else ["--json"]))
            with self.assertRaises(ValueError) as raised:
                zplan.plan("8B", **asked)
            self.assertEqual(f"zplan: {raised.exception}\n", err, asked)

    def test_they_are_of_one_type(self):
        with self.assertRaises(zplan.InputError):
            zplan.plan(7)
        with self.assertRaises(zplan.InputError):
            zplan.models("no such model at all")

    def test_programs_are_not_started(self):
        for command in ("bench", "gui"):
            status, _, messages = _engine.ask([command])
            self.assertEqual((status, "accepted: zplan " in messages), (2, True))


class Threads(unittest.TestCase):
    def test_ten_at_once(self):
        questions = [{"gpus": gpus, "mem": 44} for gpus in range(1, 11)]
        alone = [zplan.plan("8B", **each).json for each in questions]
        together = [""] * len(questions)

        def ask(place):
            together[place] = zplan.plan("8B", **questions[place]).json

        threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(questions))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(together, alone)

    def test_searches_on_threads_leave_signals_alone(self):
        before = signal.getsignal(signal.SIGINT)
        threads = [threading.Thread(target=zplan.search, args=("0.5B",), kwargs={"gpus": 2, "mem": 24}) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertIs(signal.getsignal(signal.SIGINT), before)
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(100):
                time.sleep(0.01)

    def test_others_run_while_it_plans(self):
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1

        other = threading.Thread(target=count)
        other.start()
        zplan.fit("deepseek-ai/DeepSeek-V3", gpus=512, nodes=64, gpu="H100-SXM-80GB", solve="micro-batch")
        at_end = counted[0]
        done.set()
        other.join()
        self.assertGreater(at_end, 10_000)

    def test_an_interrupt_ends_it(self):
        code = ("import os, signal, threading, zplan\n"
                "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                "try: zplan.fit('deepseek-ai/DeepSeek-V3', gpus=512, nodes=64, gpu='H100-SXM-80GB')\n"
                "except KeyboardInterrupt: print('interrupted')\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(done.stdout, "interrupted\n")


class Results(unittest.TestCase):
    def test_the_stub_has_the_fields_of_the_classes(self):
        with open(os.path.join(os.path.dirname(TESTS), "python", "zplan", "_fields.pyi")) as file:
            classes = [node for node in ast.parse(file.read()).body if isinstance(node, ast.ClassDef)]
        self.assertGreater(len(classes), 60)
        for node in classes:
            stubbed = {each.target.id: each.value is not None for each in node.body if isinstance(each, ast.AnnAssign)}
            fields = {field.name: field.default is not dataclasses.MISSING for field in dataclasses.fields(getattr(results, node.name))}
            self.assertEqual({name: has for name, has in stubbed.items() if name != "schedule"}, fields, node.name)

    def test_what_a_document_leaves_out_has_its_default(self):
        training = zplan.plan("8B", gpus=5, mem=44).training
        self.assertEqual((training.objective, training.adapters, training.modules_to_save, training.rollout), ("sft", 1, (), None))
        with self.assertRaisesRegex(AttributeError, "no attribute 'Nothing'"):
            results.Nothing  # noqa: B018

    def test_they_are_dataclasses_that_do_not_change(self):
        report = zplan.plan("8B", gpus=5, mem=44)
        self.assertEqual(dataclasses.asdict(report.best.strategy)["zero_stage"], 3)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            report.best.fits = False
        self.assertEqual(report, zplan.plan("8B", gpus=5, mem=44))
        self.assertNotEqual(report, zplan.plan("8B", gpus=4, mem=44))

    def test_the_parts_of_memory_add_up(self):
        for plan in zplan.plan("8B", gpus=5, mem=44).plans:
            m = plan.memory
            self.assertEqual(m.peak, m.parameters + m.gradients + m.optimizer_states + m.activations + m.loss + m.communication_buffers +
                             m.temporaries + m.framework_overhead)

    def test_the_schedule_is_read_when_it_is_asked_for(self):
        report = zplan.plan("8B", gpus=5, mem=44)
        self.assertNotIn("schedule", vars(report))
        self.assertEqual(sum(call.times for call in report.schedule.calls), sum(each.count for each in report.best.communication.collectives))
        with self.assertRaises(AttributeError):
            report.nothing  # noqa: B018

    def test_what_is_recommended(self):
        report = zplan.plan("8B", gpus=5, mem=44)
        self.assertEqual((report.best.id, report.fits, report.ds_config["zero_optimization"]["stage"]), ("zero3", True, 3))
        self.assertIs(report.plan("zero2"), next(plan for plan in report.plans if plan.id == "zero2"))
        with self.assertRaisesRegex(KeyError, "zero3"):
            report.plan("zero9")
        short = zplan.plan("70B", gpus=1, mem=16)
        self.assertEqual((short.best, short.fits, short.recommended), (None, False, None))

    def test_a_bar_is_as_long_as_its_bytes(self):
        report = zplan.plan("8B", gpus=5, mem=44, zero=3, offload="none")
        html = report._repr_html_()
        width = {name: float(html.split(f"<title>{name}: ")[0].rsplit('width="', 1)[1].split('"')[0]) for name in ("parameters", "optimizer states")}
        self.assertAlmostEqual(width["optimizer states"] / width["parameters"],
                               report.best.memory.optimizer_states / report.best.memory.parameters, places=1)
        self.assertIn("<b>zero3</b> is recommended", html)
        self.assertIn("nothing fits", zplan.plan("70B", gpus=1, mem=16)._repr_html_())

    def test_the_page_is_the_command_lines(self):
        report = zplan.plan("8B", gpus=5, mem=44)
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, name) for name in ("saved.html", "written.html", "saved.json")]
            report.save(names[0])
            zplan.plan("8B", gpus=5, mem=44, html=names[1])
            report.save(names[2])
            pages = [pathlib.Path(name).read_text(encoding="utf-8") for name in names]
        self.assertTrue(pages[0].startswith("<!DOCTYPE html>"))
        self.assertEqual(pages[0], pages[1])
        self.assertEqual(json.loads(pages[2]), report.to_dict())

    def test_names_are_escaped(self):
        config = {**Models.CONFIG, "_name_or_path": "<script>"}
        self.assertNotIn("<script>", zplan.plan(config, mem=24)._repr_html_())


class Command(unittest.TestCase):
    """`python -m zplan` is the command line."""

    def run_module(self, *words, **how):
        return subprocess.run([sys.executable, "-m", "zplan", *words], capture_output=True, text=True, check=False, **how)

    def test_it_is_the_same(self):
        for words in (["--model", "8B", "--gpus", "5", "--mem", "44"], ["--version"], ["--model", "8X"], ["--model", "70B", "--mem", "8"]):
            done = self.run_module(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr), command_line(*words))

    def test_trace_is_pythons(self):
        done = self.run_module("trace", "--help")
        self.assertIn(done.returncode, (0, 2))
        self.assertNotIn("no such command", done.stderr)

    def test_a_closed_pipe_ends_it(self):
        line = f"{sys.executable} -m zplan models --json | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        self.assertIn(int(done.stdout), (0, 128 + signal.SIGPIPE))
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
