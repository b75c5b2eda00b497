"""Bad input: one clear sentence, exit status 1, no traceback."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest

from collapse.config.execution import ExecutionConfig
from collapse.errors import CollapseError
from collapse.launch.command import crowded
from collapse.launch.job import TrainingJob, read_job
from collapse.training.device import choose_device


def sentence(done: object) -> str:
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_a_gpu_that_is_not_there(lab) -> None:
    import torch

    assert not torch.cuda.is_available()
    with pytest.raises(CollapseError, match=r"execution\.device is 'cuda', but PyTorch sees no GPU"):
        choose_device(lab.spec().training, lab.execution(device="cuda"))


def test_a_missing_token_store(lab, tmp_path: Path) -> None:
    assert "token store is missing or unfinished" in sentence(
        lab.run(lab.spec(), lab.execution(), tmp_path, tokens=tmp_path / "nowhere")
    )


def test_a_vocabulary_smaller_than_the_text_and_text_shorter_than_a_sequence(lab, tmp_path: Path) -> None:
    message = sentence(lab.run(lab.spec(vocab_size=100), lab.execution(), tmp_path))
    assert "the tokenizer has 256 pieces" in message and "(model.vocab_size is 100)" in message
    length = int(lab.store.manifest.train.tokens) + 1
    message = sentence(lab.run(lab.spec(sequence_length=length), lab.execution(), tmp_path))
    assert "fewer than one sequence needs" in message


def test_damaged_tokens_are_not_trained_on(lab, tmp_path: Path) -> None:
    tokens = Path(shutil.copytree(lab.tokens, tmp_path / "tokens"))
    content = bytearray((tokens / "train.bin").read_bytes())
    content[1000:1100] = bytes(100)
    (tokens / "train.bin").write_bytes(content)
    message = sentence(lab.run(lab.spec(), lab.execution(), tmp_path, tokens=tokens))
    assert "train.bin does not have the sha256 of its manifest" in message


def test_a_failure_of_several_processes_is_no_traceback(lab, tmp_path: Path) -> None:
    threads = len(os.sched_getaffinity(0))
    execution = lab.execution(processes=2, micro_batch_size=4, threads=threads)
    done = lab.run(lab.spec(vocab_size=100), execution, tmp_path)
    assert "one of the 2 training processes failed" in sentence(done)
    assert "the tokenizer has 256 pieces" in done.stderr and len(done.stderr.splitlines()) <= 7
    assert done.stderr.count(f"2 process(es) of {threads} thread(s) share") == 1


def test_a_folder_that_cannot_be_written_to(lab) -> None:
    message = sentence(lab.run(lab.spec(), lab.execution(), Path("/proc/nowhere")))
    assert message.startswith("error: ")


def test_a_spec_with_mistakes_names_them_all(lab, tmp_path: Path) -> None:
    command = lab.command(lab.spec(), lab.execution(), tmp_path)
    job = json.loads(command[-1])
    job["spec"]["model"]["heads"] = 5
    job["spec"]["training"]["lr"] = -1
    job["execution"]["processors"] = 2
    command[-1] = json.dumps(job)
    message = sentence(subprocess.run(command, capture_output=True, text=True, check=False))
    assert message.startswith("error: training job: ") and "heads must divide width" in message
    assert "spec.training.lr" in message and "execution.processors: unknown key" in message


def test_a_job_is_one_argument_of_json(lab, tmp_path: Path) -> None:
    job = lab.job(lab.spec(), lab.execution(), tmp_path)
    assert read_job([job.model_dump_json()]) == job
    with pytest.raises(CollapseError, match=r"as one argument, in JSON \(got 2 arguments\)"):
        read_job(["{}", "{}"])
    with pytest.raises(CollapseError, match=r"should be JSON: .* \(got 'spec'\)"):
        read_job(["spec"])


def test_a_job_begins_with_its_process(lab, tmp_path: Path) -> None:
    written = lab.job(lab.spec(), lab.execution(), tmp_path).model_dump(exclude={"began"})
    assert TrainingJob.model_validate(written).began == psutil.Process().create_time()


def test_more_threads_than_cores_are_allowed_and_said(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert crowded(lab.execution(processes=3)) is None and crowded(lab.execution(threads=3)) is None
    assert "2 process(es) of 2 thread(s) share 3 core(s)" in crowded(lab.execution(processes=2, threads=2))


def test_a_step_that_does_not_divide() -> None:
    execution = ExecutionConfig(micro_batch_size=3)
    with pytest.raises(ValueError, match=r"the 8 sequences per process .*micro_batch_size = 3"):
        execution.split(8)
    with pytest.raises(ValueError, match=r"execution\.processes = 2"):
        ExecutionConfig(micro_batch_size=3, processes=2).split(3)
    with pytest.raises(ValueError, match=r"1 sequence\(s\) is too small .* set execution\.processes to 1 or less"):
        ExecutionConfig(micro_batch_size=1, processes=2).split(1)
    assert ExecutionConfig(micro_batch_size=4).split(1) == (1, 1)
    assert np.prod(ExecutionConfig(micro_batch_size=4, processes=2).split(64)) == 32
