# One training per run. Its checkpoints and history are in a scratch folder, which is no output: Snakemake deletes the
# outputs of a job that was stopped, and the next start resumes from the scratch folder.


rule train:
    input:
        tokens=str(PLAN.paths.tokens(PLAN.config.data.tokens_id) / "manifest.json"),
    output:
        metrics=directory("<results>/runs/{run}/metrics.zarr"),
        manifest="<results>/runs/{run}/manifest.json",
    log:
        "<logs>/train/{run}.log",
    benchmark:
        "<benchmarks>/train/{run}.tsv"
    threads: lambda wildcards: PLAN.train_threads(wildcards.run)
    resources:
        **SITE.training(PLAN),
    params:
        spec=lambda wildcards: PLAN.run(wildcards.run),
        code=PLAN.code("training"),
        # A job that asked for GPUs must not fall back to CPUs. Snakemake does not compare functions of `input`.
        device=lambda wildcards, input: SITE.device(PLAN.execution(wildcards.run), ON_CLUSTER),
    # A scheduler may signal all processes of a job; the shell waits until the training has saved a checkpoint.
    shell:
        "trap : TERM; collapse train --configfile {CONFIG:q} --run {wildcards.run} {params.device} --log {log:q}"
