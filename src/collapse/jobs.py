"""The jobs of the workflow: each one gets its inputs and outputs from the plan and calls its stage.

Snakemake's rules and users start them with the same commands (`cli.py`). Each job imports heavy modules itself.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from collapse.errors import CollapseError
from collapse.files import write_atomic
from collapse.pipeline.datasets import DATASETS
from collapse.pipeline.plan import Plan


@contextmanager
def logged(*files: Path) -> Iterator[None]:
    """Within this context, all output of this process and its children also goes to files.

    The `tee` that copies the output runs in a separate session. A signal to all processes of a job does not reach it,
    so it still writes the messages of processes that save a checkpoint.
    """
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
    command = ["tee", "--append", *map(str, files)]
    kept = [os.dup(stream) for stream in (1, 2)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as tee:
        assert tee.stdin is not None
        for stream in (1, 2):
            os.dup2(tee.stdin.fileno(), stream)
        tee.stdin.close()
        try:
            yield
        finally:
            for output in (sys.stdout, sys.stderr):
                output.flush()
            for stream, original in zip((1, 2), kept, strict=True):
                os.dup2(original, stream)
                os.close(original)


def use_threads(threads: int) -> None:
    """Limit the threads of numerical libraries; call it before any of them is imported."""
    os.environ["OMP_NUM_THREADS"] = str(max(1, threads))


def fetch_corpus(plan: Plan, corpus_id: str) -> None:
    """Fetch a corpus and write it as shards."""
    from collapse.config.corpus import SampleCorpus
    from collapse.corpus import sample

    corpus, out = plan.corpora[corpus_id], plan.paths.corpus(corpus_id)
    assert isinstance(corpus, SampleCorpus)
    manifest = sample.write(corpus, out)
    print(f"sample corpus: {manifest.documents:,} documents, {manifest.characters:,} characters in {out}")


def make_tokenizer(plan: Plan, tokens_id: str) -> None:
    """Train or fetch the tokenizer of a token store."""
    from collapse.corpus import tokenizer

    spec, out = plan.token_stores[tokens_id], plan.paths.tokens(tokens_id) / "tokenizer.model"
    model = tokenizer.obtain(spec, _fetched(plan, tokens_id))
    write_atomic(out, model)
    pieces = tokenizer.load(model, str(out)).get_piece_size()
    print(f"tokenizer ({spec.tokens.tokenizer.kind}): {pieces:,} pieces in {out}")


def tokenize(plan: Plan, tokens_id: str, threads: int) -> None:
    """Write a token store."""
    from collapse.corpus.tokenize import tokenize as encode

    out = plan.paths.tokens(tokens_id)
    fetched = _fetched(plan, tokens_id)
    manifest = encode(plan.token_stores[tokens_id], out / "tokenizer.model", out, fetched, threads)
    for split in (manifest.train, manifest.validation):
        print(f"{split.tokens:,} tokens of {split.documents:,} documents")


def _fetched(plan: Plan, tokens_id: str) -> Path | None:
    manifest = plan.fetched(tokens_id)
    return None if manifest is None else Path(manifest).parent


def train(plan: Plan, run_id: str, device: str | None = None) -> None:
    """Train a run of the config.

    Args:
        plan: The config.
        run_id: The run.
        device: Replaces `execution.device`.

    Raises:
        CollapseError: for every expected failure.
    """
    execution = plan.execution(run_id)
    use_threads(execution.threads)
    from collapse.launch.command import train as launch
    from collapse.launch.job import TrainingJob

    spec = plan.runs[run_id]
    print(f"attempt of {time.strftime('%F %T')} on {socket.gethostname()}", file=sys.stderr, flush=True)
    launch(
        TrainingJob(
            spec=spec,
            execution=execution if device is None else execution.model_copy(update={"device": device}),
            code=plan.code("training"),
            tokens=plan.paths.tokens(spec.data.tokens_id),
            scratch=plan.train_scratch(run_id),
            out=plan.paths.run(run_id),
        )
    )


def measure(plan: Plan, name: str, seeds: tuple[int, int] | None, threads: int) -> None:
    """Measure a dataset, or a slice of its seeds.

    Args:
        plan: The config.
        name: The dataset.
        seeds: First seed, and the seed after the last; None if the dataset is not sliced over seeds.
        threads: CPU threads.

    Raises:
        CollapseError: if there is too little memory, or the tokens cannot be read.
    """
    use_threads(threads)
    from collapse.provenance import provenance
    from collapse.store.job import Job, run_job
    from collapse.store.parts import Parts

    dataset = DATASETS[name]
    _require_memory(plan, name)
    module = import_module(f"collapse.{dataset.module}")
    tokens = plan.paths.tokens(plan.config.probe_data.tokens_id) if dataset.reads_tokens else None
    scratch = plan.job_scratch(name, *(seeds or ()))
    job = Job(module.Spec.model_validate(plan.spec(name)), Parts(scratch), range(*(seeds or (0, 0))), tokens)
    out = plan.paths.slice(name, *seeds) if seeds else plan.paths.dataset(name)
    run_job(module, job, out, provenance(plan.code(dataset.module), device="cpu", threads=threads))


def _require_memory(plan: Plan, name: str) -> None:
    """Stop before the start if the work does not fit into memory."""
    import psutil

    needed, available = DATASETS[name].memory(plan.config), psutil.virtual_memory().available
    if needed > available:
        raise CollapseError(
            f"{name}: this needs about {needed / 1e9:.1f} GB of memory, but {available / 1e9:.1f} GB are available: "
            "lower model.sequence_length or probe.seeds_per_job, give `probe` fewer settings, or use a larger machine"
        )


def join(plan: Plan, name: str, threads: int) -> None:
    """Join the slices of a dataset; deletes them after publication if the dataset does not keep them."""
    use_threads(threads)
    from collapse.provenance import provenance
    from collapse.store.job import join_slices

    dataset = DATASETS[name]
    paths = [plan.paths.slice(name, *seeds) for seeds in plan.slices(name)]
    module = import_module(f"collapse.{dataset.join}")
    join_slices(module, paths, plan.paths.dataset(name), provenance(plan.code(dataset.join)))
    for path in [] if dataset.keeps_slices else paths:
        path.with_suffix(".json").unlink()
        shutil.rmtree(path)


def summarize(plan: Plan) -> None:
    """Write the table of runs."""
    from collapse.analysis.summary import write_table

    write_table([plan.paths.run(run_id) for run_id in plan.runs], plan.config.analysis, plan.paths.summary)


def judge(plan: Plan) -> None:
    """Write the table of claims."""
    from collapse.claims.catalogue import CLAIMS, DATASETS
    from collapse.claims.judging import assess
    from collapse.claims.table import write_claims
    from collapse.store.dataset import load_dataset

    data = {name: load_dataset(plan.paths.dataset(name)) for name in DATASETS}
    write_claims(assess(CLAIMS, data), plan.paths.claims)


def draw(plan: Plan, name: str) -> None:
    """Draw a figure."""
    from collapse.figures.command import draw_figure
    from collapse.figures.runs import Shown, show

    figure, analysis = plan.figures[name], plan.config.analysis
    inputs: dict[str, Path | Sequence[Shown]] = {
        option: [show(plan.paths.run(run_id), analysis) for run_id in run_ids]
        for option, run_ids in figure.runs.items()
    }
    if figure.data is not None:
        inputs["data"] = plan.paths.root / f"{figure.data}.zarr"
    draw_figure(figure.family, inputs, plan.config.figures, figure.number, plan.paths.figures / f"{name}.png")


def report(plan: Plan) -> None:
    """Write the report page."""
    from collapse.report.page import write_report

    paths = plan.paths
    write_report(plan.config, paths.root, paths.summary, paths.claims, paths.report)
