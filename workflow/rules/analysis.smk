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
        mem_mb=1000,
    params:
        spec=PLAN.analysis,
        code=PLAN.code("analysis.summary"),
        runs=lambda wildcards, input: [Path(manifest).parent for manifest in input.runs],
    shell:
        "python -m collapse.analysis.summary --spec {params.spec:q} --runs {params.runs:q} --out {output.summary:q}"
        " 2>&1 | tee -i {log:q}"
