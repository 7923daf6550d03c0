"""Plans that nearly fill the GPU, and plans that nearly do: each is run on a GPU made a little larger and a little
smaller than what zplan says it needs."""
import json
import subprocess
import tempfile
from pathlib import Path

import ranks
from run import row_of

MARGINS = (1.02, 0.98)


def required_bytes(zplan, runs, card):
    """What zplan says each run needs of a GPU, context included, by the run's id."""
    rows = [row_of(run) | {"outcome": "out_of_memory", "available_bytes": 1} for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.json"
        path.write_text(json.dumps({"schema": "zplan.runs/1", "card": card, "rows": rows}))
        answer = subprocess.run([zplan, "check", str(path), "--json"], capture_output=True, text=True, check=False)
    if not answer.stdout:
        raise RuntimeError(answer.stderr.strip())
    records = json.loads(answer.stdout)["records"]
    return {record["id"]: record["predicted"] for record in records if record["statistic"] == "required" and record["predicted"]}


def measure(zplan, runs, card, watcher, log, *, fake=False, stop=lambda: False):
    """Rows as they are measured. A GPU with less memory available than a plan wants is left out."""
    needed = required_bytes(zplan, runs, card)
    room = watcher.free()
    for run in runs:
        for margin in MARGINS:
            leave = int(needed.get(run.id, 0) * margin)
            if stop() or not 0 < leave <= room:
                continue
            # A rehearsal's processes do not see each other's memory: its GPUs are all as large.
            row = ranks.measure(run, watcher, log, fake=fake, leave=None if fake else leave)
            yield row | {"id": f"{run.id}|margin={margin}", "required_bytes": needed[run.id]}
