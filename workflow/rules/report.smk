# Everything on one self-contained page.


rule report:
    input:
        summary="<results>/summary.csv",
        claims="<results>/claims.csv",
        figures=[f"<results>/figures/{figure}.png" for figure in PLAN.figures],
    output:
        html="<results>/report.html",
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(20),
    params:
        spec=PLAN.report,
        code=PLAN.code("report"),
        config=lambda wildcards, input: PLAN.whole,
        results=subpath(output.html, parent=True),
    shell:
        "python -m collapse.report --config {params.config:q} --results {params.results:q} --summary {input.summary:q}"
        " --claims {input.claims:q} --out {output.html:q} 2>&1 | tee -i {log:q}"
