# One training a run of the grid. Checkpoints and the history of a training under way live in the scratch folder, which
# is no output: Snakemake deletes the outputs of a job that was stopped, and the next start goes on from the scratch.
from collapse.pipeline.resources import train_memory_mb

# Snakemake here, which has a cluster's profile, or in a job of it, which has not.
ON_CLUSTER = workflow.exec_mode == ExecMode.REMOTE or "slots" in workflow.global_resources


rule train:
    input:
        tokens="<tokens>/manifest.json",
    output:
        metrics=directory("<results>/runs/{run}/metrics.zarr"),
        manifest="<results>/runs/{run}/manifest.json",
    log:
        "<logs>/train/{run}.log",
    benchmark:
        "<benchmarks>/train/{run}.tsv"
    conda:
        "../../environment.yml"
    threads: lambda wildcards: PLAN.train_threads(wildcards.run)
    # GPUs are those of a node; a training over several nodes starts on the first, and reaches the others by itself.
    resources:
        **SITE.options,
        slurm_partition=PLAN.of_runs(SITE.partition_of),
        mem_mb=lambda wildcards: train_memory_mb(PLAN, wildcards.run, SITE.gpus(PLAN.execution_of(wildcards.run)) > 0),
        runtime=SITE.minutes(1440),
        gpus=PLAN.of_runs(SITE.gpus),
        gres=PLAN.of_runs(lambda execution: f"gpu:{SITE.gpus(execution)}" if SITE.gpus(execution) else "none"),
        nodes=PLAN.of_runs(lambda execution: execution.nodes),
        node_options=PLAN.of_runs(lambda execution: f"--nodes={execution.nodes} --ntasks-per-node=1"),
        tasks=PLAN.of_runs(lambda execution: execution.nodes if execution.nodes > 1 else None),
        tasks_per_gpu=0,
        mpi=PLAN.of_runs(lambda execution: "srun" if execution.nodes > 1 else None),
    params:
        spec=lambda wildcards: PLAN.run(wildcards.run),
        code=PLAN.code("training.loop"),
        # Functions of `input`, `output` or `threads` are not compared when Snakemake decides what to rerun.
        execution=lambda wildcards, input: PLAN.execution(
            wildcards.run, ON_CLUSTER and SITE.gpus(PLAN.execution_of(wildcards.run)) > 0
        ),
        time_limit=lambda wildcards, input: PLAN.time_limit,
        omp_threads=lambda wildcards, threads: max(1, threads // PLAN.execution_of(wildcards.run).processes_per_node),
        tokens=subpath(input.tokens, parent=True),
        scratch=lambda wildcards, output: PLAN.paths.scratch(f"{wildcards.run}-{PLAN.code('training.loop')}"),
        out=subpath(output.manifest, parent=True),
        attempts=lambda wildcards, output: PLAN.paths.logs / f"train/{wildcards.run}.attempts.log",
    # A scheduler may signal all of these: the training then saves a checkpoint, and the others stay until it has.
    # Snakemake deletes a log before the next attempt; another, which it does not know, keeps what made each of them end.
    shell:
        "trap : TERM; (echo \"attempt of $(date '+%F %T') on $(hostname)\"; OMP_NUM_THREADS={params.omp_threads} exec python -m collapse.launch --spec {params.spec:q} --execution {params.execution:q} --code {params.code}"
        " --tokens {params.tokens:q} --scratch {params.scratch:q} --out {params.out:q}{params.time_limit}) 2>&1 | (trap '' TERM; exec tee -ia {params.attempts:q} {log:q})"
