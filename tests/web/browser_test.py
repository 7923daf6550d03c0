"""The page in Chromium: browser_test.py FOLDER [--pictures FOLDER] [--axe AXE_MIN_JS]

Measures the first answer of a cold load and a changed option, opens a link in another browser (in Firefox, too, where it is there), asks every
framework, opens what is broken, works without a network, and lets nothing stand in the console. Status 77 without Playwright or Chromium. Of timings the
shortest counts, and all are printed, with the machine's load: other programs make them longer, and nothing makes them shorter.
"""
import argparse
import base64
import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("Playwright is not there: pip install playwright")
    sys.exit(77)

from firefox import Firefox

QUESTION = "#model=8B&gpus=8&gpu=H100-SXM-80GB"
COMPARISON = "#model=8B&gpus=5&mem=44;model=8B&gpus=8&gpu=H100-SXM-80GB&.name=rented;model=8B&gpus=3&mem=44&method=lora;.baseline=1&.view=compare"
COMPARED = "document.querySelectorAll('.comparison thead th').length === 3"
SETTLED = "document.querySelector('#answer').getAttribute('aria-busy') === 'false'"
READY = f"{SETTLED} && document.querySelector('#verdict, .comparison') !== null"
FIRST_ANSWER, CHANGED_OPTION = 2.0, 0.3  # seconds


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class WrongTypes(Quiet):
    """A server that knows no types."""

    def guess_type(self, path):
        return Quiet.guess_type(self, path) if path.endswith((".html", ".css", ".js", "/")) else "application/octet-stream"


class Checks:
    def __init__(self):
        self.passed, self.failed, self.console = 0, 0, []

    def that(self, holds, sentence):
        print(f"{'ok    ' if holds else 'FAILED'} {sentence}")
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)

    def soon(self, page, condition, sentence):
        """Checks that a condition comes to hold."""
        try:
            wait_for(page, condition)
            self.that(True, sentence() if callable(sentence) else sentence)
        except TimeoutError:
            self.that(False, f"in time: {condition}")

    def listen(self, page):
        page.on("console", lambda each: each.type in ("error", "warning") and self.console.append(each.text))
        page.on("pageerror", lambda each: self.console.append(str(each)))
        return page


def wait_for(page, condition, seconds=60):
    """Asks for a condition until it holds. Playwright's own waiting is forbidden by the page's policy."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        page.wait_for_timeout(20)


def serve(folder, handler=Quiet):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/"


def opened(checks, browser, address, **context):
    page = checks.listen(browser.new_context(**context).new_page())
    page.goto(address)
    wait_for(page, READY)
    return page


def first_answer(checks, browser, base):
    """Seconds from a load without a cache to the verdict."""
    page = checks.listen(browser.new_context().new_page())
    page.add_init_script("""new MutationObserver(() => { if (!window.answered && document.querySelector('#verdict')) window.answered = performance.now(); })
        .observe(document, {childList: true, subtree: true})""")
    page.goto(base + QUESTION)
    wait_for(page, "window.answered > 0")
    seconds = page.evaluate("window.answered") / 1000
    page.context.close()
    return seconds


def changed_option(page, length):
    """Seconds from a key to the answer of a new sequence length."""
    return page.evaluate("""async (length) => {
        const before = document.querySelector('#verdict').textContent, field = document.querySelector('#option-seq'), began = performance.now();
        field.focus(); field.value = length; field.dispatchEvent(new Event('input', {bubbles: true}));
        while (document.querySelector('#verdict').textContent === before) await new Promise((next) => requestAnimationFrame(next));
        return (performance.now() - began) / 1000;
    }""", length)


def check_speed(checks, browser, base):
    cold = [first_answer(checks, browser, base) for _ in range(5)]
    load = f"load average {os.getloadavg()[0]:.1f}"
    checks.that(min(cold) < FIRST_ANSWER, f"first answer of a cold load: {', '.join(f'{each:.2f}' for each in cold)} s ({load})")
    page = opened(checks, browser, base + QUESTION)
    changed = []
    for i in range(9):
        changed.append(changed_option(page, str(1024 + 256 * i)))
        wait_for(page, READY)
    checks.that(min(changed) < CHANGED_OPTION, f"a changed option: {', '.join(f'{each * 1000:.0f}' for each in changed)} ms ({load})")
    page.context.close()


def check_links(checks, browser, base):
    """A link made in one browser opens the same comparison in another."""
    first = opened(checks, browser, base + COMPARISON)
    wait_for(first, COMPARED)
    first.wait_for_timeout(500)
    second = opened(checks, browser, first.url)
    wait_for(second, COMPARED)
    table = "document.querySelector('.comparison').innerText"
    made = first.evaluate(table)
    checks.that(made == second.evaluate(table), "a link opens the same comparison in a new profile")
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox:
        with Firefox(firefox) as other:
            other.goto(first.url)
            wait_for(other, COMPARED)
            # Browsers differ in the white space between cells.
            checks.that(made.split() == other.evaluate(table).split(), f"and in Firefox {other.evaluate('navigator.userAgent').split('/')[-1]}: {len(made.split())} words")
    for page in (first, second):
        page.context.close()


CONFIG = '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "_name_or_path": "ours/small"}'
RECIPE = "base_model: Qwen/Qwen3-8B\nadapter: qlora\nload_in_4bit: true\nsequence_len: 2048\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\noptimizer: adamw_bnb_8bit\nbf16: true\n"


def check_files(checks, browser, base):
    page = opened(checks, browser, base + QUESTION)
    with tempfile.TemporaryDirectory() as folder:
        for name, text, expected in (("config.json", CONFIG, "small"), ("qlora.yaml", RECIPE, "Qwen3-8B")):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            page.set_input_files("#file", path)
            wait_for(page, f"document.querySelector('.verdict p').textContent.includes('{expected}') && {READY}")
            checks.that(True, f"{name} is planned: {page.inner_text('#verdict')}")
        with page.expect_download() as saved:
            page.click("#save")
        path = os.path.join(folder, saved.value.suggested_filename)
        saved.value.save_as(path)
        page.click("#compare")
        wait_for(page, COMPARED)
        other = opened(checks, browser, base + QUESTION)
        other.click("#scenarios button[aria-label^=delete]")
        other.set_input_files("#file", path)
        wait_for(other, COMPARED)
        table = "document.querySelector('.comparison').innerText"
        checks.that(page.evaluate(table) == other.evaluate(table), f"a saved comparison opens elsewhere, with the files that were dropped: {os.path.basename(path)}")
        other.context.close()
        broken = os.path.join(folder, "broken.json")
        with open(broken, "w", encoding="utf-8") as file:
            file.write('{"model_type": "llama", "hidden_size": -5}')
        page.set_input_files("#file", broken)
        wait_for(page, "document.querySelector('#answer').textContent.includes('broken') || !document.querySelector('#problem').hidden")
        checks.that(True, "a broken config is a sentence")
    page.context.close()


def check_form(checks, browser, base):
    """Models and GPUs are found as they are typed, and chosen by the keyboard; memory that is given holds in place of the GPU's."""
    page = opened(checks, browser, base + QUESTION)
    said = "document.querySelector('.verdict p').textContent"
    for field, typed, expected in (("model", "qwen3-8b", "Qwen/Qwen3-8B:"), ("gpu", "4090", "RTX-4090-24GB")):
        page.fill(f"#option-{field}", typed)
        page.press(f"#option-{field}", "ArrowDown")
        page.press(f"#option-{field}", "Enter")
        checks.soon(page, f"{READY} && {said}.includes('{expected}')", f"{typed} is found as {expected}")
    page.fill("#option-mem", "48")
    page.press("#option-mem", "Enter")
    checks.soon(page, f"{READY} && document.querySelector('#verdict').textContent.includes(' of 42.')", lambda: f"a memory of 48 GiB holds: {page.inner_text('#verdict')}")
    page.check("#option-method input[value=qlora]", force=True)
    checks.soon(page, f"{READY} && {said}.includes('QLoRA')", "a method is taken")
    page.select_option("#option-trainer", "unsloth")
    checks.soon(page, f"{READY} && location.hash.includes('trainer=unsloth')", "a trainer is taken, and stands in the address")
    room = "[...document.querySelectorAll('.verdict .room')].map((each) => each.textContent)"
    checks.soon(page, f"{READY} && {room}.length === 2 && /^Room with Unsloth .*tokens in a sample/.test({room}[0]) && /^With TRL .* instead: /.test({room}[1])", lambda: f"and what it leaves room for: {page.evaluate(room)}")
    page.select_option("#option-trainer", "trl")
    checks.soon(page, f"{READY} && location.hash.includes('trainer=trl') && {room}.length === 0", "a trainer without another beside it says nothing of room")
    page.context.close()


def check_frameworks(checks, browser, base):
    """Every framework that the engine has stands in the form, and has an answer of its own: with stages where it has them."""
    page = opened(checks, browser, base + QUESTION + "&grad-accum=8")
    frameworks = page.evaluate("fetch('catalogue.json').then((r) => r.json()).then(({options}) => options.find(({name}) => name === 'framework').words)")
    checks.that(len(frameworks) > 1, f"frameworks in the form: {', '.join(frameworks)}")
    verdicts = {}
    for framework in frameworks:
        page.select_option("#option-framework", "" if framework == "deepspeed" else framework)
        name = page.evaluate("document.querySelector('#option-framework').selectedOptions[0].textContent")
        # The sentence below the verdict has the framework of the answer, not of the form: the answer before is over once it stands there.
        answered = f"{READY} && document.querySelector('#problem').hidden && document.querySelector('.verdict p').textContent.includes(', {name}. ')"
        checks.soon(page, answered, lambda: f"{framework} is planned: {page.inner_text('#verdict')}")
        verdicts[framework] = page.inner_text("#verdict")
        if page.is_visible("#option-pp"):
            page.fill("#option-pp", "2")
            page.press("#option-pp", "Enter")
            checks.soon(page, f"{answered} && document.querySelector('#verdict').textContent.includes('pp2')", lambda: f"{framework} with stages: {page.inner_text('#verdict')}")
            checks.that("pp2" in page.inner_text("#config") and page.locator(".code pre").count() > 1, "and has a line to start it")
            page.fill("#option-pp", "")
            page.press("#option-pp", "Enter")
            checks.soon(page, f"{answered} && !location.hash.includes('pp=')", "stages are taken back")
    checks.that(len(set(verdicts.values())) == len(frameworks), f"frameworks differ in their verdicts: {len(set(verdicts.values()))} of {len(frameworks)}")
    page.context.close()


def check_broken(checks, browser, base):
    """Broken links, configs, recipes and archives end in a sentence on the page. That none stands in the console is looked at in the end."""
    node = shutil.which("node")
    if node is None:
        checks.that(False, "broken input: there is no Node to list it")
        return
    broken = json.loads(subprocess.run([node, os.path.join(os.path.dirname(os.path.abspath(__file__)), "broken_inputs.mjs")], check=True, capture_output=True, text=True).stdout)
    page = opened(checks, browser, base + QUESTION)
    sentence = """[...document.querySelectorAll('#toast.is-shown, #problem:not([hidden]), #verdict, .empty')].map((each) => each.innerText.trim()).find((each) => each !== '') ?? ''"""
    wrong, opened_ones = [], 0
    for each in [*broken["links"], *broken["files"]]:
        # A case whose address is not yet written has none to change. Changed twice, the second load would undo the next case.
        page.evaluate("location.hash ? location.hash = '#' : dispatchEvent(new HashChangeEvent('hashchange')); document.querySelector('#toast').className = ''")
        wait_for(page, f"{SETTLED} && document.querySelector('.start') !== null")
        if isinstance(each, str):
            page.evaluate("(hash) => { location.hash = hash; }", each)
        else:
            page.set_input_files("#file", {"name": each["name"], "mimeType": "text/plain", "buffer": base64.b64decode(each["base64"])})
        page.wait_for_timeout(60)
        # A link without a word is the start page.
        is_nothing = isinstance(each, str) and re.fullmatch(r"#[;&]*", each)
        try:
            wait_for(page, f"{SETTLED} && ({sentence}) !== ''" if not is_nothing else SETTLED, 20)
            said = page.evaluate(sentence)
        except TimeoutError:
            said = "[object without a sentence]"
        opened_ones += 1
        if re.search(r"RuntimeError|undefined|\[object", said):
            wrong.append(f"{each if isinstance(each, str) else each['name'] + ' ' + each['base64'][:80]}: {said}"[:200])
    checks.that(not wrong, f"{opened_ones} broken inputs end in a sentence on the page: {wrong[:3]}")
    page.context.close()


def check_chinese(checks, browser, base):
    page = opened(checks, browser, base + QUESTION, locale="zh-CN")
    reasons = page.evaluate("[...document.querySelectorAll('[aria-labelledby=why] > ul > li')].map((each) => [each.textContent, each.querySelector('[lang=en]') !== null])")
    checks.that(reasons and not any(english for _, english in reasons), f"reasons are Chinese: {reasons[0][0]}")
    checks.that(page.evaluate("document.documentElement.lang") == "zh-CN", "the language of the page is told")
    page.context.close()


def check_offline(checks, browser, folder):
    server, base = serve(folder)
    page = opened(checks, browser, base + QUESTION)
    wait_for(page, "navigator.serviceWorker.ready.then(() => true)")
    page.wait_for_timeout(500)
    verdict = page.inner_text("#verdict")
    server.shutdown()
    server.server_close()
    page.reload()
    wait_for(page, READY)
    checks.that(page.inner_text("#verdict") == verdict, "answers without a network")
    page.context.close()


def check_wrong_types(checks, browser, folder):
    server, base = serve(folder, WrongTypes)
    page = opened(checks, browser, base + QUESTION)
    checks.that(True, "answers from a server that sends wrong types")
    page.context.close()
    server.shutdown()


STAGES = "#model=70B&gpus=64&nodes=8&gpu=H100-SXM-80GB&framework=torchtitan&pp=4&tp=2&grad-accum=8"
VIEWS = {"start": "", "plan": QUESTION, "short": "#model=70B&gpus=2&gpu=RTX-3090-24GB&seq=512&method=qlora", "problem": "#model=none/such&gpus=8&mem=80", "stages": STAGES, "compare": COMPARISON}


def visit(checks, browser, base, axe, pictures):
    for language, views in (("en-US", VIEWS), ("zh-CN", {name: VIEWS[name] for name in ("start", "plan", "compare")})):
        for name, link in views.items():
            for width, height in ((390, 844), (1280, 900), (1920, 1080)):
                for theme in ("light", "dark"):
                    look(checks, browser, base, axe, pictures, name=name, link=link, width=width, height=height, theme=theme, language=language)


def look(checks, browser, base, axe, pictures, *, name, link, width, height, theme, language):
    page = checks.listen(browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, locale=language).new_page())
    page.goto(base + link)
    wait_for(page, SETTLED)
    if name == "compare":
        wait_for(page, COMPARED)
    if name == "start":
        wait_for(page, "document.querySelectorAll('.example .bar').length === 3")
    page.wait_for_timeout(300)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        checks.that(False, f"{name} at {width} px is {wide} px wide")
    if pictures:
        page.screenshot(path=os.path.join(pictures, f"{name}-{width}-{theme}-{language[:2]}.png"), full_page=True)
    if axe and width != 1920:
        page.evaluate(axe)
        found = page.evaluate("axe.run().then(({violations}) => violations.map((each) => `${each.impact}: ${each.id}: ${each.nodes[0].html.slice(0, 120)}`))")
        serious = [each for each in found if each.startswith(("serious", "critical"))]
        checks.that(not serious, f"axe, {name} at {width} px, {theme}, {language}: {'; '.join(found) or 'nothing'}")
    page.context.close()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder")
    arguments.add_argument("--pictures")
    arguments.add_argument("--axe", help="axe.min.js [of the package axe-playwright-python]")
    given = arguments.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("Chromium is not there: apt-get install chromium")
        return 77
    axe = None
    packaged = importlib.util.find_spec("axe_playwright_python")
    if given.axe is None and packaged:
        given.axe = os.path.join(packaged.submodule_search_locations[0], "axe.min.js")
    if given.axe:
        with open(given.axe, encoding="utf-8") as file:
            axe = file.read()
    else:
        print("axe is not there, so nothing looks for faults of accessibility: pip install axe-playwright-python")
    if given.pictures:
        os.makedirs(given.pictures, exist_ok=True)
    checks = Checks()
    with sync_playwright() as playwright:
        # The page's policy forbids scripts of others, so the checker of accessibility is evaluated past it.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        _, base = serve(given.folder)
        check_speed(checks, browser, base)
        check_links(checks, browser, base)
        check_files(checks, browser, base)
        check_form(checks, browser, base)
        check_frameworks(checks, browser, base)
        check_broken(checks, browser, base)
        check_chinese(checks, browser, base)
        check_wrong_types(checks, browser, given.folder)
        visit(checks, browser, base, axe, given.pictures)
        checks.that(not checks.console, f"the console is empty: {checks.console[:3]}")
        checks.console.clear()
        check_offline(checks, browser, given.folder)
        browser.close()
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


sys.exit(main())
