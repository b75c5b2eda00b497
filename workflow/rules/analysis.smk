# The table of runs and the table of claims.


rule summary:
    input:
        PLAN.manifests(),
    output:
        "<results>/summary.csv",
    log:
        "<logs>/summary.log",
    benchmark:
        "<benchmarks>/summary.tsv"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(30),
    params:
        spec=PLAN.analysis,
        code=PLAN.code("analysis.summary"),
    shell:
        "collapse summary --configfile {CONFIG:q} --log {log:q}"


rule claims:
    input:
        PLAN.dataset_manifests,
    output:
        csv="<results>/claims.csv",
        json="<results>/claims.json",
    log:
        "<logs>/claims.log",
    benchmark:
        "<benchmarks>/claims.tsv"
    group:
        "initialization"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(5),
        slots=1,
    params:
        code=PLAN.code("claims.catalogue"),
    shell:
        "collapse claims --configfile {CONFIG:q} --log {log:q}"
