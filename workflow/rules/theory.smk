# The closed forms beside Monte Carlo.


rule swiglu_moment:
    output:
        data=directory("<results>/theory/swiglu_moment.zarr"),
        manifest="<results>/theory/swiglu_moment.json",
    log:
        "<logs>/theory/swiglu_moment.log",
    benchmark:
        "<benchmarks>/theory/swiglu_moment.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(240),
        slots=1,
    params:
        spec=PLAN.probes["swiglu_moment"],
        code=PLAN.code("theory.moment_sampling"),
        scratch=lambda wildcards, output: PLAN.job_scratch("swiglu_moment"),
    shell:
        "OMP_NUM_THREADS={threads} python -m collapse.theory.moment_sampling --spec {params.spec:q} --code {params.code}"
        " --scratch {params.scratch:q} --out {output.data:q} 2>&1 | tee -i {log:q}"


rule concentration:
    output:
        data=directory("<results>/theory/concentration.zarr"),
        manifest="<results>/theory/concentration.json",
    log:
        "<logs>/theory/concentration.log",
    benchmark:
        "<benchmarks>/theory/concentration.tsv"
    conda:
        "../../environment.yml"
    threads: PLAN.config.execution.threads
    resources:
        **SITE.job,
        mem_mb=2000,
        runtime=SITE.minutes(240),
        slots=1,
    params:
        spec=PLAN.probes["concentration"],
        code=PLAN.code("theory.concentration"),
        scratch=lambda wildcards, output: PLAN.job_scratch("concentration"),
    shell:
        "OMP_NUM_THREADS={threads} python -m collapse.theory.concentration --spec {params.spec:q} --code {params.code}"
        " --scratch {params.scratch:q} --out {output.data:q} 2>&1 | tee -i {log:q}"
