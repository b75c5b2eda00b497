# One training per run. Checkpoints and the history of a training under way live in its scratch folder, which is no
# output: Snakemake deletes the outputs of a job that was stopped, and the next start resumes from the scratch folder.


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
        # A job that asked for GPUs takes nothing else. Snakemake does not compare functions of `input`.
        device=lambda wildcards, input: SITE.device(PLAN.execution(wildcards.run), ON_CLUSTER),
    # The shell stays until the training has saved a checkpoint: a scheduler may signal all processes of a job.
    shell:
        "trap : TERM; collapse train --configfile {CONFIG:q} --run {wildcards.run} {params.device} --log {log:q}"
