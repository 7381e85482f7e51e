"""Training that is killed at any moment goes on to the same end."""

import multiprocessing
import random
import time
from contextlib import suppress

import torch

from fotltn.learn.checkpoints import clear_checkpoints, latest_checkpoint
from fotltn.learn.fit import fit
from fotltn.networks.parts import Batches
from tests.learn import tasks

EPOCHS, KILLS = 90, 20


def task():
    """Something of everything: parts that are drawn, facts that are held back, random networks."""
    return tasks.task(
        2, ground=tasks.grounding(2, stop=tasks.dropout()), validation=0.2, patience=None,
        batches=Batches("entities", 3, "agent"), epochs=EPOCHS, rate=0.01,
    )  # fmt: skip


def train(folder, tell):
    """What the process does that is killed; it tells of every epoch that it goes on by."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    found, before = task(), step(folder)
    tell.send(before)
    fit(found, checkpoints=folder, every=1, on_epoch=lambda epoch: tell.send(epoch.number))


def start(processes, folder):
    """A process that is about to train, and what it tells."""
    here, there = processes.Pipe(duplex=False)
    child = processes.Process(target=train, args=(folder, there))
    child.start()
    there.close()
    here.recv()
    return child, here


def step(folder):
    latest = latest_checkpoint(folder).checkpoint
    return 0 if latest is None else latest.step


def test_a_run_that_is_killed_at_random_moments_ends_as_if_it_were_not(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the processes have
    try:
        whole = task()
        expected = fit(whole)
    finally:
        torch.set_num_threads(threads)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__, "torch._dynamo"])
    rng = random.Random(0)
    steps: list[int] = []
    while len(steps) < KILLS:
        child, told = start(processes, tmp_path)
        if len(steps) % 5:  # else perhaps before its first epoch
            with suppress(EOFError):  # there was none left
                told.recv()
        time.sleep(rng.uniform(0.0, 0.2))
        child.kill()
        child.join()
        if child.exitcode == 0:  # it was faster
            clear_checkpoints(tmp_path)
        else:
            steps.append(step(tmp_path))
    assert len(set(steps)) > 3  # it went on in between
    last, _ = start(processes, tmp_path)
    last.join()
    assert last.exitcode == 0
    again = task()
    outcome = fit(again, checkpoints=tmp_path)  # reads the end that the process left
    assert outcome.history == expected.history
    assert tasks.same(tasks.weights(again), tasks.weights(whole))
