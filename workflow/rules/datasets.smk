# Datasets: probes, checks and theory, which need no run. src/collapse/pipeline/datasets.py lists them. Datasets over
# many seeds are measured in slices, one job per slice, and joined. A stopped job resumes from its scratch folder, which
# is no output.
SLICED = "|".join(name for name in DATASETS if PLAN.slices(name)) or "none"
WHOLE = "|".join(name for name in DATASETS if not PLAN.slices(name)) or "none"


rule dataset:
    input:
        lambda wildcards: PLAN.tokens_read(wildcards.dataset),
    output:
        data=directory("<results>/{place}/{dataset}.zarr"),
        manifest="<results>/{place}/{dataset}.json",
    log:
        "<logs>/{place}/{dataset}.log",
    benchmark:
        "<benchmarks>/{place}/{dataset}.tsv"
    wildcard_constraints:
        dataset=WHOLE,
    group:
        lambda wildcards: None if PLAN.tokens_read(wildcards.dataset) else "checks"
    threads: lambda wildcards: PLAN.threads(wildcards.dataset)
    resources:
        **SITE.job,
        mem_mb=lambda wildcards: PLAN.memory_mb(wildcards.dataset),
        runtime=lambda wildcards: SITE.minutes(DATASETS[wildcards.dataset].minutes),
        slots=1,
    params:
        spec=lambda wildcards: PLAN.dataset(wildcards.dataset),
        code=lambda wildcards: PLAN.code(DATASETS[wildcards.dataset].module),
    shell:
        "collapse probe --configfile {CONFIG:q} --dataset {wildcards.dataset} --threads {threads} --log {log:q}"


rule slice:
    input:
        lambda wildcards: PLAN.tokens_read(wildcards.dataset),
    output:
        data=directory("<results>/{place}/slices/{dataset}-{first}-{last}.zarr"),
        manifest="<results>/{place}/slices/{dataset}-{first}-{last}.json",
    log:
        "<logs>/{place}/{dataset}-{first}-{last}.log",
    benchmark:
        "<benchmarks>/{place}/{dataset}-{first}-{last}.tsv"
    wildcard_constraints:
        dataset=SLICED,
    threads: lambda wildcards: PLAN.threads(wildcards.dataset)
    resources:
        **SITE.job,
        mem_mb=lambda wildcards: PLAN.memory_mb(wildcards.dataset),
        runtime=lambda wildcards: SITE.minutes(DATASETS[wildcards.dataset].minutes),
    params:
        spec=lambda wildcards: PLAN.dataset(wildcards.dataset),
        code=lambda wildcards: PLAN.code(DATASETS[wildcards.dataset].module),
    shell:
        "collapse probe --configfile {CONFIG:q} --dataset {wildcards.dataset} --threads {threads} --log {log:q}"
        " --seeds {wildcards.first} {wildcards.last}"


rule join:
    input:
        lambda wildcards: PLAN.slice_manifests(wildcards.dataset),
    output:
        data=directory("<results>/{place}/{dataset}.zarr"),
        manifest="<results>/{place}/{dataset}.json",
    log:
        "<logs>/{place}/{dataset}.log",
    benchmark:
        "<benchmarks>/{place}/{dataset}.tsv"
    wildcard_constraints:
        dataset=SLICED,
    group:
        "initialization"
    threads: lambda wildcards: PLAN.join_threads(wildcards.dataset)
    resources:
        **SITE.job,
        mem_mb=2000,
        runtime=SITE.minutes(30),
        slots=1,
    params:
        code=lambda wildcards: PLAN.code(DATASETS[wildcards.dataset].join),
    shell:
        "collapse probe --configfile {CONFIG:q} --dataset {wildcards.dataset} --threads {threads} --log {log:q} --join"
