"""What tests have another process call, which is told where to `say` something; who is alive."""

import json
import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil


def double(number, say):
    say("half", number / 2)
    return number * 2


def fail(say):
    raise ConnectionError("nobody there")


def warn(say):
    logging.getLogger("cluster.driver").warning("%d workers are not ready", 3)


def end_with_a_note(say):
    os.write(
        2, b"[2026-11-21 14:55:38 E 7 9] rpc_client.h:204: Failed to connect to GCS\n*** Stack\n"
    )
    os._exit(1)


def kill_itself(say):
    os.kill(os.getpid(), 9)


def leave_a_thread(say):
    threading.Thread(target=time.sleep, args=(60,)).start()


def wait_and_tidy(path, say):
    try:
        say("pid", os.getpid())
        time.sleep(600)
    finally:
        Path(path).touch()


def places_of(names, say):
    """Import modules and say where they are."""
    import importlib

    return {name: importlib.import_module(name).__file__ for name in names}


def look_around_on_ray(path, say):
    """Start a cluster, say where it is, and keep it until a file is there."""
    from cluster import ray_cluster
    from cluster.children import worker_environment

    with ray_cluster.connected(None, 1):
        ray = ray_cluster.ray
        environment = {"env_vars": worker_environment(3, is_local=True)}
        ask = ray.remote(runtime_env=environment)(facts_of_worker)
        worker = ray.get(ask.remote())
        say("up", ray_cluster.head_address(), os.environ["RAY_AUTH_TOKEN"])
        while not Path(path).exists():
            time.sleep(0.05)
        return worker


def facts_of_worker():
    import sys

    from cluster import runners

    return {"OMP": os.environ["OMP_NUM_THREADS"], "path": sys.path, "ours": runners.__file__}


def enter_all(outs, barrier, answers):
    """Enter each folder at the same instant as another process does; say which let us in."""
    from cluster.live import FolderInUse, LiveRun

    entered = []
    try:
        for out in outs:
            barrier.wait()
            wait_for_the_clock()
            try:
                with LiveRun(out):
                    entered.append(out)
                    barrier.wait()
            except FolderInUse:
                barrier.wait()
    finally:
        barrier.abort()
        answers.put(entered)


def wait_for_the_clock(step_s=0.005):
    """Until its next step but one, since a barrier wakes one before the other."""
    begins = time.time() // step_s * step_s + 2 * step_s
    while time.time() < begins:
        pass


def marked_processes(mark):
    """Other processes that inherited `ASSAY_TEST_MARK` with a value, and what each is called."""
    marked = {"ASSAY_TEST_MARK": str(mark)}.items()
    processes = psutil.process_iter(["environ", "name"])
    alive = [process for process in processes if marked <= (process.info["environ"] or {}).items()]
    return {process.pid: process.info["name"] for process in alive if process.pid != os.getpid()}


def descendants():
    """Return this process and all that it has started."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def commands():
    """Return the command lines of the descendants, but for those that end meanwhile."""
    found = []
    for process in descendants():
        with suppress(psutil.Error):
            found += process.cmdline()
    return " ".join(found)


def changed(out, **changes):
    """Let `progress.json` say something else."""
    path = Path(out, "progress.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def elsewhere(out, **changes):
    """Let `progress.json` be that of a driver on another machine."""
    changed(out, host="elsewhere", pid=1, process="theirs", **changes)
