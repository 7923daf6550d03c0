"""What scripts that record steps on the stand-in for a GPU share: adapters/, ppo/ and rollouts/record.py."""
import json
import os
import sys
import time
import traceback


def apart(case, spec):
    """case(spec) in a process of its own, since PyTorch's allocator and process groups outlive a case."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            result = case(spec)
        except BaseException:
            result = dict(failed=traceback.format_exc()[-3000:])
        with os.fdopen(write, "w") as file:
            json.dump(result, file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else dict(failed="no answer")


def record(specs, case):
    """Appends a line for each row to the file that the command line names; rows that it has already are left out."""
    out, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    done = set()
    if os.path.exists(out):
        with open(out) as file:
            done = {json.loads(line)["id"] for line in file}
    for spec in specs:
        if spec["id"] in done or part not in spec["id"]:
            continue
        start = time.time()
        result = apart(case, spec)
        failed = result.get("failed")
        peaks = failed or {name: phase["peak_allocated"] >> 20 for name, phase in result["measured"]["3"]["phases"].items()}
        print(spec["id"], round(time.time() - start), peaks, flush=True)
        if not failed:
            with open(out, "a") as file:
                file.write(json.dumps(result) + "\n")
