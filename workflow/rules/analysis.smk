# What the runs did: one row a run.


rule summary:
    input:
        runs=PLAN.manifests(),
    output:
        summary="<results>/summary.csv",
    log:
        "<logs>/summary.log",
    benchmark:
        "<benchmarks>/summary.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(30),
    params:
        spec=PLAN.analysis,
        code=PLAN.code("analysis.summary"),
        runs=lambda wildcards, input: [Path(manifest).parent for manifest in input.runs],
    shell:
        "python -m collapse.analysis.summary --spec {params.spec:q} --runs {params.runs:q} --out {output.summary:q}"
        " 2>&1 | tee -i {log:q}"


# Which statements of the paper hold: one row a claim.


rule claims:
    input:
        increments="<results>/probes/increments.json",
        attention="<results>/probes/attention.json",
        approximations="<results>/probes/approximations.json",
        collapsed_states="<results>/probes/collapsed_states.json",
        swiglu_moment="<results>/theory/swiglu_moment.json",
        concentration="<results>/theory/concentration.json",
    output:
        csv="<results>/claims.csv",
        json="<results>/claims.json",
    log:
        "<logs>/claims.log",
    benchmark:
        "<benchmarks>/claims.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(5),
        slots=1,
    params:
        code=PLAN.code("claims.table"),
        data=lambda wildcards, input: [
            f"--{name.replace('_', '-')}={Path(manifest).with_suffix('.zarr')}" for name, manifest in input.items()
        ],
    shell:
        "python -m collapse.claims.table {params.data:q} --out {output.csv:q} 2>&1 | tee -i {log:q}"
